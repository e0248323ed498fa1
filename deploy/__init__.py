"""What runs beside a gateway: the brokers that it writes to."""
