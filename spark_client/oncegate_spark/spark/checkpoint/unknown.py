"""The one line that says, before a batch, that the digest of its input is unknown, and what mends it."""


def unknown(why: str, way: str) -> str:
    """The warning's text. `way`: the line to write."""
    return (
        f"the digest of the batches' input is unknown: {why}. A replay is compared by its rows alone: where a plan is "
        f"not deterministic (uuid(), rand()) it ends in BATCH_CONFLICT and stops the query. It is known with {way}"
    )
