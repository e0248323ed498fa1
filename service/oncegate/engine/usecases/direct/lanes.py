"""Opens lanes, and reports which of their sequences are written, by the table `core.direct.ASK`."""

import asyncio

import numpy as np

from oncegate.core.direct import ACK, ASK, Acking, QuestionOutcome, ReadProgress, RecordState
from oncegate.core.entries.kinds import IdentifiedBy, SetWritten
from oncegate.core.entries.producers import LaneOpened, LaneWritten
from oncegate.core.errors import BadRequest, DeadlinePassed, NotFound, TooLarge, TopicReplaced
from oncegate.core.producers import SEQUENCE_MAX
from oncegate.engine.commit.journal import Journal
from oncegate.engine.commit.proven import answers
from oncegate.engine.counters import LANE_DUPLICATES
from oncegate.engine.deadline import Deadline
from oncegate.engine.names import check_name
from oncegate.engine.producer_requests import LaneAnswer, LaneOpening, LaneQuestion
from oncegate.engine.usecases import source_ids
from oncegate.engine.usecases.direct.entering import DirectEntering, Reached
from oncegate.engine.usecases.direct.record import SPANS_MAX
from oncegate.engine.usecases.topics import identify_topics
from oncegate.index.lanes import Lane
from oncegate.index.producers.intervals import count_of
from oncegate.ports import DirectRecords

# Limit for an answer; the client then asks again. A leader moves faster than this when a broker restarts.
ASK_MS = 10_000
_NOWHERE = (
    "there are no lanes here: clients write themselves only where the ledger is on Kafka (--ledger kafka://…); nothing "
    "was changed"
)


class DirectLanes:
    """The lanes of one journal. records: None if the ledger does not support lanes."""

    def __init__(self, journal: Journal, records: DirectRecords | None) -> None:
        self.journal = journal
        self._index = journal.index.lanes
        self._records = records
        self._entering = None if records is None else DirectEntering(journal, records)

    @answers("open_lane")
    async def open(self, topic: str, producer: str, deadline: Deadline, source_id: str | None = None) -> LaneOpening:
        """Opens a lane, unless it is open already, and returns the topic and partition that its client writes to; the
        lane's own topic then accepts no other writers.

        source_id: the source of the sequences, as in `ProducerRequest`.

        Raises BadRequest: the topic was written in another way; SourceReplaced: it is another source; NotFound: the
        ledger is not on Kafka; TooLarge, LedgerFull, DeadlinePassed: nothing was changed. LedgerDown: effect unknown;
        retry.
        """
        check_name("topic", topic, self.journal.limits)
        check_name("producer", producer, self.journal.limits)
        records = self._place()
        deadline.check()
        lane = self._index.get(topic, producer)
        named = source_ids.entries_of(self.journal, topic, producer, source_id)
        if lane is None:
            self._check_new(topic)
            self.journal.group_commit.check()
            number = len(self._index) + 1
            made = LaneOpened(number, topic, producer, number % records.partitions, self.journal.wall_ms())
            self.journal.record([made])
            lane = self._lane(topic, producer)
        if named:
            self.journal.group_commit.check()
            self.journal.record(named)
        position = max(lane.position, source_ids.position_of(self.journal, topic, producer))
        await self.journal.group_commit.durable(position)
        return LaneOpening(lane.number, records.place(lane.number, lane.partition))

    def _check_new(self, topic: str) -> None:
        if self.journal.index.topics.get(topic) is not None:
            raise BadRequest(
                f"topic {topic} is written through this namespace already, and a topic is written one way: the same "
                "rows could come both ways; take another topic, or another namespace; nothing was changed"
            )
        if self.journal.index.settings.in_force.record_headers:
            raise BadRequest(
                "this namespace promises headers on each record (record_headers), and those that clients write have "
                "none: take another namespace; nothing was changed"
            )
        if len(self._index) >= self.journal.limits.producers:
            raise TooLarge(
                f"{len(self._index)} lanes in a namespace are all there may be: a lane is a partition of a source"
            )

    @answers("ask_lane")
    async def ask(self, question: LaneQuestion, deadline: Deadline) -> LaneAnswer:
        """Returns which sequences are written. The client must have fenced earlier writers of the lane before it asks.

        Raises NotFound: the lane was never opened; TopicReplaced: its rows went to another topic; BadRequest, TooLarge,
        LedgerFull, LedgerDamaged, DeadlinePassed, LedgerDown: no answer, and nothing was changed.
        """
        self._check(question)
        deadline.check()
        reading, reached = ReadProgress.BEFORE, Reached(0, 0)
        while True:
            lane = self._lane(question.topic, question.producer)
            if self._index.next_offset(lane.partition) < reached.next_offset:
                # The entries of that read were undone with a refused append, so it does not count.
                reading = ReadProgress.BEFORE
            acking = self._acking(lane, question, reading)
            if acking is Acking.READ_ON:
                reached = await self._read_on(lane, deadline)
                reading = ReadProgress.READ
                continue
            if acking is Acking.ENTER:
                self._enter_ack(lane, question)
                continue
            answer, states = self._known(lane, question)
            told = {ASK[state, reading].effect for state in states}
            if QuestionOutcome.READ_ON in told:
                reached = await self._read_on(lane, deadline)
                reading = ReadProgress.READ
            elif QuestionOutcome.COMMIT in told:
                await self.journal.group_commit.durable(lane.position)
                if reading is ReadProgress.READ:
                    await self.journal.group_commit.owned(reached.since)
                    reading = ReadProgress.PROVEN
            else:
                await self._identify(lane, question)
                self.journal.counts.add(LANE_DUPLICATES, count_of(answer.duplicates))
                return answer

    async def _identify(self, lane: Lane, question: LaneQuestion) -> None:
        """Records the topic that receives the lane's rows; durable when it returns.

        A lane without written rows may move to any topic of that name. Raises TopicReplaced: nothing was changed.
        """
        if question.topic_id is None:
            return
        journal, by, topic_ids = self.journal, IdentifiedBy.LANE, {question.topic: question.topic_id}
        try:
            entries = identify_topics(journal, by, question.producer, topic_ids)
        except TopicReplaced:
            if len(lane.written):
                raise
            entries = [SetWritten(question.producer, question.topic, question.topic_id, journal.wall_ms(), by)]
        if entries:
            journal.group_commit.check()
            await journal.group_commit.durable(journal.record(entries))

    def _acking(self, lane: Lane, question: LaneQuestion, reading: ReadProgress) -> Acking:
        """Returns the effect of the question's ack. Raises BadRequest if it covers sequences that were not written."""
        if question.acked is None:
            return Acking.NOTHING
        acking = ACK[lane.cover(question.acked), reading].effect
        if acking is Acking.REFUSE:
            raise BadRequest(
                f"acked is {question.acked}, and no sequence of producer {lane.producer} in topic {lane.topic} that is "
                "as high was written: rows that come later up to there would be dropped; nothing was changed"
            )
        return acking

    def _enter_ack(self, lane: Lane, question: LaneQuestion) -> None:
        """Enters all sequences up to the acked one as written, positioned after the last entered record."""
        assert question.acked is not None
        self.journal.group_commit.check()
        span, offset = np.array([[0, question.acked]], "<u8"), self._index.next_offset(lane.partition) - 1
        self.journal.record([LaneWritten(lane.number, offset, span.tobytes(), self.journal.wall_ms())])

    def _known(self, lane: Lane, question: LaneQuestion) -> tuple[LaneAnswer, set[RecordState]]:
        """Returns the index's answer to a question about sequences, and the states of these sequences."""
        duplicates = lane.within(question.first, question.last)
        is_whole = count_of(duplicates) == question.last - question.first + 1 if len(duplicates) else False
        states = set() if is_whole else {RecordState.ABSENT}
        if len(duplicates):
            is_durable = lane.position <= self.journal.group_commit.mark.position
            states.add(RecordState.ENTERED if is_durable else RecordState.FOUND)
        return LaneAnswer(duplicates, is_whole), states

    async def _read_on(self, lane: Lane, deadline: Deadline) -> Reached:
        assert self._entering is not None
        reading = asyncio.shield(self._entering.read_on(lane.partition))
        bounded = Deadline(self.journal.clock, ASK_MS if deadline.left_ms is None else min(ASK_MS, deadline.left_ms))
        try:
            return await bounded.reading(_awaited(reading))
        except DeadlinePassed as error:
            place = self._place().place(lane.number, lane.partition)
            raise DeadlinePassed(
                f"topic {place.topic}, partition {place.partition}, was not read to its end in time: a transaction of "
                "another lane is open there, which ends with its writer's next start or its transaction.timeout.ms, or "
                "the partition has no leader; nothing is known, ask again"
            ) from error

    def _check(self, question: LaneQuestion) -> None:
        self._place()
        if not 0 <= question.first <= question.last <= SEQUENCE_MAX:
            raise BadRequest(
                f"sequences {question.first} to {question.last}: they rise from 0 to {SEQUENCE_MAX}; nothing was asked"
            )
        if question.acked is not None and not 0 <= question.acked < question.first:
            raise BadRequest(f"acked is {question.acked}: it is below first, {question.first}; nothing was asked")
        lane, limit = self._lane(question.topic, question.producer), self.journal.limits.intervals
        if question.acked is None and len(lane.written) + SPANS_MAX > limit:
            raise TooLarge(
                f"producer {lane.producer} has {len(lane.written)} intervals in topic {lane.topic}, and {limit} are "
                "all that are kept: its sequences have too many holes. Ask with `acked`, up to which its source brings "
                "nothing more, or write by ids. Nothing was asked"
            )

    def _lane(self, topic: str, producer: str) -> Lane:
        lane = self._index.get(topic, producer)
        if lane is None:
            raise NotFound(f"producer {producer} has no lane to topic {topic}: open it first; nothing was asked")
        return lane

    def _place(self) -> DirectRecords:
        if self._records is None:
            raise NotFound(_NOWHERE)
        return self._records


async def _awaited(reading: "asyncio.Future[Reached]") -> Reached:
    return await reading
