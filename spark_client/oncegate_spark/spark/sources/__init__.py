"""Sources of a query that the sink has to know about: what their options say, before a job runs."""
