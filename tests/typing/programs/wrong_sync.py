# ruff: noqa
"""Invalid uses that a type checker reports: the comment on each marked line names the error."""

from oncegate_spark import Gateway, Outcome


def wrong(gateway: Gateway) -> None:
    Gateway(8080)  # wrong: arg-type
    Gateway("http://127.0.0.1:8080", "mail", 1_000)  # wrong: call-arg
    gateway.claims(["a"])  # wrong: attr-defined
    gateway.create_topic("t", 3)  # wrong: call-arg
    gateway.fetch("t", "0")  # wrong: arg-type
    table, following, high = gateway.fetch("t")  # wrong: misc
    gateway.topic("t")["low_offsets"]  # wrong: index
    gateway.topic("t").rows  # wrong: attr-defined
    gateway.take(["a"], "owner")  # wrong: arg-type
    rows: int = gateway.produce("t", "ab", 0, b"")  # wrong: assignment
    with gateway.attempt() as attempt:
        claimed = attempt.claim(["a"])
        attempt.complete(["a"])  # wrong: arg-type
        attempt.complete(claimed.granted, claimed)  # wrong: arg-type
        claimed.verdicts.takeovers = 3  # wrong: misc
        attempt.claim(7)  # wrong: arg-type
        written: int = attempt.produce("t", None, id_col="id")  # wrong: assignment
        done: int = attempt.complete(claimed)  # wrong: assignment
    outcome: Outcome = "written"  # wrong: assignment
