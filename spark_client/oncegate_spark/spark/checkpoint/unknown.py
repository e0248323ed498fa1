"""Builds the warning that a batch's input is unknown, with the remedy."""


def unknown(why: str, way: str) -> str:
    """Returns the warning. `way`: the option or call that makes the input known."""
    return (
        f"the batches' input is unknown: {why}. A replay is compared only by its rows: if the plan is "
        f"not deterministic (uuid(), rand()) it fails with BATCH_CONFLICT and stops the query. To fix this, use {way}"
    )
