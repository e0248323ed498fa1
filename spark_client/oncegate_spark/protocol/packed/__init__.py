"""The packed answer to a claim: a verdict for each id, and what is known of the firsts of duplicates."""
