"""Compares the source of a producer's rows with the source of its earlier sequences, by the table
`core.producers.SOURCE`."""

from oncegate.core.entries.producers import SourceNamed
from oncegate.core.errors import SourceReplaced
from oncegate.core.producers import SOURCE, SourceNaming
from oncegate.engine.commit.journal import Journal
from oncegate.engine.names import check_name


def entries_of(journal: Journal, topic: str, producer: str, source_id: str | None) -> list[SourceNamed]:
    """Returns the entry that records the source, if the producer has none yet; changes nothing.

    topic: of a lane; empty for a producer that registers.

    Raises SourceReplaced, BadRequest: nothing was changed.
    """
    if source_id is not None:
        check_name("source_id", source_id, journal.limits)
    sources = journal.index.source_ids
    effect = SOURCE[sources.known(topic, producer, source_id)].effect
    if effect is SourceNaming.RECORD:
        assert source_id is not None, "what is not named is not recorded"
        return [SourceNamed(topic, producer, source_id, journal.wall_ms())]
    if effect is SourceNaming.REFUSE_REPLACED:
        named = sources.get(topic, producer)
        raise SourceReplaced(
            f"the sequences of producer {producer} are of source {named[0] if named else ''}, and the rows that came "
            f"are of source {source_id}: a topic that was made again begins again, and its rows would be dropped as "
            "written. Two ways on: write under another producer's name, and all of its rows are new; or, if they are "
            "the same records at the same places, as in a mirrored cluster, name the source as before; nothing was "
            "changed",
            producer=producer,
        )
    return []


def position_of(journal: Journal, topic: str, producer: str) -> int:
    """Returns the position of the entry that recorded the source; 0 if there is none."""
    named = journal.index.source_ids.get(topic, producer)
    return 0 if named is None else named[1]
