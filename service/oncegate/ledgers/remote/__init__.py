"""What ledgers on servers have alike: who of several gateways owns them, and how an open one lives and ends."""
