"""Compares an input with the ledger and with the output: like Photon's verifier, as a batch program."""
