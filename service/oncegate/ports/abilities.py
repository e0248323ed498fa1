"""Lists what a ledger may leave out: the table that the author of a new ledger begins with.

What is not listed here is no ledger's choice. The conformance suite (`oncegate.testing`) skips, by name, the checks
of the abilities that a ledger says it leaves out.
"""

from enum import StrEnum


class Ability(StrEnum):
    """Names one thing that a ledger may do without."""

    OUTPUTS = "outputs"
    COMPACTION = "compaction"
    NAMESPACES = "namespaces"


# How a ledger without the ability answers where it is asked for, and what becomes of a gateway over it.
LEAVING_OUT: dict[Ability, str] = {
    Ability.OUTPUTS: (
        "`OpenLedger.outputs` is None, and an append with output changes raises ValueError; the gateway refuses to "
        "serve over it, since rows and evicted ids lie in outputs"
    ),
    Ability.COMPACTION: (
        "`compact` raises LedgerFull each time, nothing is changed; the gateway asks again later, and the ledger grows"
    ),
    Ability.NAMESPACES: (
        "`create` raises BadRequest for every name but `default`, which is never deleted; the gateway passes that on"
    ),
}
