"""Where rows are read: the input file, a topic of the gateway or of Kafka; and the gateway that is asked of ids."""
