"""The calls of the gateway as steps: what is sent and how long to wait, without a socket or a clock."""
