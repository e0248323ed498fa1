"""Descriptions of producers, drivers and lanes in the OpenAPI document; `descriptions` puts them beside the rest."""

TEXT = """\
## Producers

A source that numbers its records (a Kafka partition and its offsets) needs no id per record: it is a *producer*, and
what it claims are *sequences*, strictly increasing. Which were written is kept as intervals.

1. `producers/{producer}:register` with the attempt's token and the name of the driver: who owns the retries. The answer
   is an epoch, greater than any before; whatever an older one still asks is FENCED. While another attempt's lease lives
   the answer is PRODUCER_BUSY: wait, at most `lease_left_ms`. It also tells where the producer stands: what to drop
   (`done`, and all up to `watermark`) and after which sequence to go on (`resume_after`).
2. `:claim` sequences in the order of the source, with the next `call`. `prev_sequence` says that the source holds
   nothing between it and the first of these; GAP when it was never claimed itself. OUT_OF_ORDER for a sequence that was
   never claimed and lies below one that was: two writers share the producer, or its order is not the source's.
3. Write what is GRANTED, `:complete` the call; `:renew` meanwhile, `:release` when nothing was written. `:close` ends
   the lease, so that the next attempt need not wait for it.
4. BUSY, FENCED, GAP and OUT_OF_ORDER are never success: who is told so has not written, and must not say that it has.
5. The driver, and nobody else, acks (`drivers/{driver}:ack`) what nobody will retry any more, under its own token and
   epoch. What is acked is STALE for ever, and no longer kept one by one. Each producer is a part, and each batch: a
   part over something that was claimed and is not done is told in `refused`, and the others pass. A batch before the
   last that was acked is 409 OLDER_BATCH, with that one.
6. What a dead task has claimed and not settled, and nobody claims again, keeps its part from being acked: a person
   looks, and clears it (`:resolve`, of a claim or a producer), done or not done. The ledger has who said so, and why.

Where the ledger is on Kafka a client may write a producer's rows into a topic of Kafka itself. It opens a *lane*
(`topics/{topic}/lanes:open`), starts a producer of Kafka with the lane's `transactional_id`, which fences whoever had
it before, and only then asks (`lanes:ask`) which sequences are written; the others it writes, with one record of them
in the lane's `topic` and `partition`, in one transaction. A question that cannot be answered yet, since another
transaction is open in that partition, ends with its deadline: ask again. A topic that has a lane is written by lanes
alone.

`driver` and `batch` beside ids (of ids:claim, ids:take, records:produce) make them belong to a batch of that driver:
they are forgotten when it is acked, not by a horizon, and a request of an acked batch is told STALE for each of its
ids.
"""

_SOURCE = (
    "of what the sequences number, as Kafka's topic id: the first that is named is recorded for ever, and another one "
    "is SOURCE_REPLACED; null: not compared"
)
_DRIVER = "who owns the retries of its producers"
_EPOCH = "as registering answered"
_NUMBERS = {
    "producer_id": "the producer's number, for ever",
    "epoch": "greater than any before; of the newest registration",
    "watermark": "everything up to it is STALE for ever; null: nothing was acked yet",
    "claimed_to": "the highest sequence that was ever claimed; null: none was",
    "resume_after": "everything claimed up to it is done: a source that is read anew goes on behind it; null: none is",
    "done": "what is done above the watermark: first and last of each interval, both included",
    "truncated": "there are more intervals, older than those in `done`",
}

MEMBERS: dict[str, dict[str, str]] = {
    "DriverReply": {
        "driver": "as in the path",
        "epoch": "greater than any before; an older one's acks are FENCED from now on",
        "batch": "the last that was acked under this name; null: none was",
    },
    "UptoMessage": {"producer": "of this driver", "sequence": "the last that nobody retries any more"},
    "AckRequest": {
        "upto": "one a producer, each a part of its own. Cut to the highest claimed sequence",
        "batch": "ids claimed under this batch of the driver, or an earlier one, are forgotten too, but for batches "
        "with an open claim: those are parts that are refused, and looked at again by each later ack",
        "topic": "what the driver writes to, any name: with it the ack says where its source goes on",
        "source_offsets": "with `topic`: where the source is to be read on behind what is acked; null: not known, and "
        "what the ack before said is forgotten",
    },
    "RefusedPart": {
        "code": "NOT_DONE: something of it is claimed and not done; or as the problem of this code",
        "action": "fix: it was named wrongly; stop: somebody has to look",
        "detail": "one sentence for a person",
        "producer": "whose part it is; not there: the batch's",
        "batch": "which batch is held back; not there: the producer's",
        "not_done": "the first of what stands in the way of a producer's: first and last of each interval",
        "open_ids": "how many ids open claims of the batch hold",
        "claims": "the first of these claims",
    },
    "AckReply": {
        "driver": "as in the path",
        "watermarks": "of the producers that were named, and are this driver's",
        "batch": "the last that is acked, but for those in `refused`; null: none is",
        "refused": "the parts that were not acked; of batches the ten oldest",
    },
    "WatermarkMessage": {"producer": "as asked", "watermark": _NUMBERS["watermark"]},
    "ProducerRequest": {
        "driver": f"{_DRIVER}; the same for ever",
        "lease_ms": "between lease_ms_min and lease_ms_max of /v1/limits; without it, lease_ms of /v1/limits",
        "gaps": "refuse: its source has no holes, so a claim that passes one over is a GAP, also without prev_sequence",
        "source_id": _SOURCE,
    },
    "ProducerReply": {"producer": "as in the path", "lease_ms": "from the gateway's answer on", **_NUMBERS},
    "SequencesRequest": {
        "call": "n-th request of this attempt, from 0; a repeat keeps its number, other sequences take the next",
        "sequences": "strictly increasing; or else `first` and `last`",
        "first": "with `last`: every sequence from here",
        "last": "to here, both included",
        "prev_sequence": "the source holds nothing between it and the first of these; it must have been claimed",
        "lease_ms": "of the producer from now on, as in registering",
    },
    "SequencesReply": {
        "call": "as asked; names what was granted for complete, release and renew",
        "lease_ms": "of the producer, from the gateway's answer on",
        "verdicts": "one a sequence, in order. GRANTED: write it. DUPLICATE, STALE: it was written, drop it",
    },
    "SettleSequencesRequest": {"call": "of the claim"},
    "SettleSequencesReply": {
        "producer": "as in the path",
        "call": "as asked",
        "state": "of the claim, whatever was asked",
        "settled": "sequences that the call was granted: they are as `state` says",
        "lease_ms": "from now, after renew; else 0",
    },
    "ResolveRequest": {
        "outcome": "done: its ids count as written; not_done: they are free",
        "verb": "release, of what is not done, to stand in the trail by that name; left out: resolve",
        "holder_gone": "whoever held the claim is dead for sure: its lease is not waited for",
        "who": "the person who has looked",
        "why": "what they saw, for whoever reads the ledger",
    },
    "ResolveSequencesRequest": {
        "outcome": "done: they count as written; not_done: they keep no ack from passing, and may be claimed until it",
        "who": "the person who has looked",
        "why": "what they saw, for whoever reads the ledger",
        "first": "only from here on; of an open call, all that it holds",
        "last": "only to here, included",
    },
    "ResolveReply": {"outcome": "as asked", "resolved": "how many ids or sequences; 0: nothing was left"},
    "OpenLaneReply": {
        "producer": "as asked",
        "lane": "the lane's number, which its records name",
        "ledger": "the id of the ledger, 16 bytes in hex, which its records name",
        "brokers": "of Kafka, where all of it is written",
        "topic": "where the lane's records go",
        "partition": "of that topic, the lane's for ever",
        "transactional_id": "the lane's own: a producer that starts with it fences the one before",
    },
    "OpenLaneRequest": {
        "producer": "whose rows the client writes: a part of its source, the same at every run",
        "source_id": _SOURCE,
    },
    "AskLaneRequest": {
        "producer": "of a lane that was opened",
        "first": "the first that is asked for",
        "last": "the last, included",
        "acked": "the source brings no sequence up to this one any more, so all of them are known as written; one as "
        "high has to be",
        "topic_id": "Kafka's id of the topic as it is now, so that rows of a topic that was made again are refused "
        "(TOPIC_REPLACED); left out: it is not compared",
    },
    "AskLaneReply": {
        "producer": "as asked",
        "duplicates": "what is written: first and last of each interval, in order; the rest was not, and nobody else "
        "will write it",
    },
    "CloseReply": {"producer": "as in the path", "epoch": "whose lease is over"},
    "ProducerExplained": {
        "producer": "as in the path",
        "driver": _DRIVER,
        "token": "the attempt that holds it, or held it last",
        "lease_left_ms": "0: whoever registers next has it",
        "lease_ms": "what it registered with, or claimed with last",
        "open": "what was claimed and is not done, in the form of `done`",
        "next": "both lists are told as far as intervals that begin there: `after` of the next page; null: there is "
        "none behind this one",
        **{name: description for name, description in _NUMBERS.items() if name != "truncated"},
    },
}
