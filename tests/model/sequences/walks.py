"""The setups of the walk of producers."""

from oncegate.core.producers import Gaps
from tests.model.sequences.world import Setup

SETUPS = {
    "sequences": Setup(),
    "sequences, late": Setup(late=0.2, doubled=0.3, refusing=0.2, dying=0.05),
    "sequences, acked while they run": Setup(eager=True, late=0.15, doubled=0.2, dying=0.05),
    "sequences, cleared": Setup(clearing=0.2, refusing=0.15, dying=0.05),
    "sequences, cleared and acked while they run": Setup(eager=True, clearing=0.2, refusing=0.15, dying=0.05),
    "sequences without gaps": Setup(gaps=Gaps.REFUSE, skipping=0.1, late=0.15, doubled=0.2, dying=0.05),
    "ids, scope = retry": Setup("ids"),
    "ids, scope = retry, late": Setup("ids", late=0.2, doubled=0.3, refusing=0.2, dying=0.05),
    "ids, scope = retry, cleared": Setup("ids", clearing=0.2, doubled=0.2, refusing=0.15, dying=0.05),
}
