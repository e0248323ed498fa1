"""The rows of the matrix."""

from tests.matrix.deliveries import Delivery
from tests.matrix.followed import REMEMBERED
from tests.matrix.killed_brokers import KILLED_BROKERS
from tests.matrix.lanes import LANES
from tests.matrix.rows import (
    HELD_MS,
    WAIT_MS,
    Row,
    answer_lost,
    followed,
    killed,
    killed_collecting,
    killed_in_doubt,
    killed_opening,
    killed_with_end,
    late,
    of_any,
    of_ledgers,
    slept,
    through,
    twice,
)
from tests.support.kafka_proxy import ADD_PARTITIONS, END_TXN, INIT_PRODUCER_ID, PRODUCE

ANSWERS = (
    Row("answer-claim", "X02 F2", "the answer to a claim is lost", answer_lost("claim")),
    Row("answer-complete", "X11 F6", "the answer to a completion is lost", answer_lost("complete")),
    Row("answer-produce", "X10", "the answer to a produce is lost", answer_lost("produce")),
)
REQUESTS = (
    Row("end-answer-lost", "K3 X08 F15", "the answer to EndTxn is lost", through("lose_answer", END_TXN)),
    Row("end-lost", "K3 X08", "EndTxn never comes, its connection is cut", through("lose", END_TXN)),
    Row("end-held", "K3", "EndTxn waits longer than the gateway", through("hold", END_TXN), wait_ms=HELD_MS),
    Row(
        "end-answer-held",
        "K3",
        "the answer to EndTxn waits longer than the gateway",
        through("hold_answer", END_TXN),
        wait_ms=HELD_MS,
    ),
    Row("end-late", "K4", "EndTxn comes while a later transaction is under way", late(END_TXN, of_ledgers)),
    Row("produce-late", "K5 X18 X20 F18", "PRODUCE comes in a later transaction", late(PRODUCE, of_any)),
    Row("produce-answer-lost", "K3", "the answer to PRODUCE is lost: it comes twice", through("lose_answer", PRODUCE)),
    Row("produce-held", "K2 X35", "PRODUCE waits longer than the gateway", through("hold", PRODUCE), wait_ms=HELD_MS),
    Row("partitions-lost", "K6", "the answer to AddPartitionsToTxn is lost", through("lose_answer", ADD_PARTITIONS)),
    Row(
        "doubt-start-lost", "K3 X36", "in doubt, InitProducerId's answer is lost too", twice(END_TXN, INIT_PRODUCER_ID)
    ),
    Row("doubt-end-lost", "K3 X36", "in doubt, the next EndTxn's answer is lost too", twice(END_TXN, END_TXN)),
)
KILLS = (
    Row("kill-begun", "X27 F12", "killed when a transaction has begun", killed("begun")),
    Row("kill-outputs", "X06 X27 F13", "killed between rows and frame", killed("outputs sent")),
    Row("kill-before-end", "X07 X27 F14", "killed before EndTxn", killed("all sent")),
    Row("kill-with-end", "X09 X27 F15", "killed when the broker has answered EndTxn", killed_with_end),
    Row("kill-committed", "X10 X27 F16", "killed between commit and answer", killed("committed")),
    Row("kill-in-doubt", "X09 F15", "killed in doubt, before it finds out", killed_in_doubt("in doubt")),
    Row("kill-decided", "X09 F15", "killed in doubt, when it has found out", killed_in_doubt("decided")),
)
OPENINGS = tuple(
    Row(name, of, f"killed in its opening: {what}", killed_opening(point))
    for name, of, what, point in (
        ("open-generation", "X42", "it has a generation", "generation taken"),
        ("open-ended", "X42 X59 F19", "it has ended its predecessors", "older ended"),
        ("open-started", "X59 F19", "its producer has started", "producer started"),
        ("open-read", "X59 F19", "it has read the frames", "frames read"),
        ("open-owned", "X59 F19", "it has committed its entry", "owned"),
        ("open-proved", "X59 F19", "its proof is listed", "proved"),
        ("open-replaying", "X59 F19", "in the middle of the replay", "replaying"),
    )
)
OWNERS = (
    Row("sleep-before-end", "K9 X19 X28", "the owner sleeps before EndTxn, is followed, wakes", followed("all sent")),
    Row("sleep-committed", "K9 X28", "the owner sleeps before it answers, is followed, wakes", followed("committed")),
    Row("sleep-generation", "X21 X42", "an opener sleeps with its generation, wakes", slept("generation taken")),
    Row("sleep-started", "X21", "an opener sleeps with its producer started, wakes", slept("producer started")),
    Row("sleep-read", "K10 X21", "an opener sleeps when it has read, wakes", slept("frames read")),
)
COLLECTIONS = tuple(
    Row(name, "X46", f"killed in a collection: {what}", killed_collecting(point), collecting=True)
    for name, what, point in (
        ("collect-piece", "a piece is written", "piece written"),
        ("collect-before", "before the frame that names it", "before the collection"),
        ("collect-named", "it is named", "collected"),
        ("collect-delete", "before records are deleted", "before the deletion"),
        ("collect-deleted", "when records were deleted", "deleted"),
    )
)
DELIVERIES = tuple(
    Row(
        f"rows-{name}",
        of,
        f"rows for two topics: {what}",
        strike,
        made=Delivery,
        wait_ms=HELD_MS if name.endswith("-held") else WAIT_MS,
    )
    for name, of, what, strike in (
        ("end-answer-lost", "K3 X08 F15", "the answer to EndTxn is lost", through("lose_answer", END_TXN)),
        ("end-lost", "K3 X08", "EndTxn never comes, its connection is cut", through("lose", END_TXN)),
        ("end-held", "K3", "EndTxn waits longer than the gateway", through("hold", END_TXN)),
        ("end-late", "K4", "EndTxn comes in a later transaction", late(END_TXN, of_ledgers)),
        ("produce-late", "K5 X05 X20 F18", "PRODUCE comes in a later transaction", late(PRODUCE, of_any)),
        ("produce-held", "K2 X05", "PRODUCE waits longer than the gateway", through("hold", PRODUCE)),
        ("kill-outputs", "X05 X06 F13", "killed between rows and frame", killed("outputs sent")),
        ("kill-before-end", "X05 X07 F14", "killed before EndTxn", killed("all sent")),
        ("kill-with-end", "X09 F15", "killed when the broker has answered EndTxn", killed_with_end),
        ("kill-committed", "X10 F16", "killed between commit and answer", killed("committed")),
        ("sleep-before-end", "K9 X19 X28", "the owner sleeps before EndTxn, is followed, wakes", followed("all sent")),
    )
)
CONTROLS = (
    Row("control-answer", "O10", "each try writes anew, an answer is lost", answer_lost("produce"), control=True),
    Row(
        "control-kill",
        "O10",
        "each try writes anew, killed before the answer",
        killed("committed"),
        control=True,
    ),
)
ROWS: tuple[Row, ...] = (
    *ANSWERS,
    *REQUESTS,
    *KILLS,
    *OPENINGS,
    *OWNERS,
    *REMEMBERED,
    *COLLECTIONS,
    *DELIVERIES,
    *LANES,
    *KILLED_BROKERS,
    *CONTROLS,
)
BY_NAME = {row.name: row for row in ROWS}
