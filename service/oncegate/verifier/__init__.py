"""Compares what was to be written with the ledger and with what was written: Photon's verifier, as a batch program."""
