"""Compares an input with the ledger and the output, like Photon's verifier, but as a batch program."""
