"""The ways to run the walk of producers."""

from tests.model.sequences.world import Setup

SETUPS = {
    "sequences": Setup(),
    "sequences, late": Setup(late=0.2, doubled=0.3, refusing=0.2, dying=0.05),
    "sequences, acked while they run": Setup(eager=True, late=0.15, doubled=0.2, dying=0.05),
    "ids, scope = retry": Setup("ids"),
    "ids, scope = retry, late": Setup("ids", late=0.2, doubled=0.3, refusing=0.2, dying=0.05),
}
