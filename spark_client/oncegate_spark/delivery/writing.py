"""Writes records of one claim into a sink that can be asked: what is in doubt is neither written again nor dropped."""

from collections.abc import Sequence

from oncegate_spark.delivery.sink import Record, Sink
from oncegate_spark.errors import InDoubt, OncegateError, SinkRefused
from oncegate_spark.sync.runner import Runner

TRIES_MAX = 4  # a sink that is restarted answers again within some seconds; a longer outage is for the caller to see
PAUSE_MS, PAUSE_MS_MAX = 100, 5_000


class NothingWritten(SinkRefused):
    """The sink has none of the records of a claim, and none will come: their ids may be free at once."""


class Writing:
    """Hands records to a sink until it says that it has them. tries_max: how often, where its answer is lost."""

    def __init__(self, gateway: Runner, sink: Sink, tries_max: int = TRIES_MAX) -> None:
        self._gateway, self._sink, self._tries_max = gateway, sink, tries_max

    def write(self, granted: list[Record], doubtful: set[str]) -> int:
        """Write those of a claim that the sink has not; how many that were. `doubtful`: it may have these.

        Raises InDoubt where the sink does not say whether it has some of them, SinkRefused where it refuses some, as
        NothingWritten where it has none; and what the sink raises of Oncegate's errors.
        """
        missing = self._missing(granted, doubtful)
        if missing:
            self._put(missing, is_whole=len(missing) == len(granted))
        return len(missing)

    def _put(self, missing: list[Record], *, is_whole: bool) -> None:
        failed: Exception | None = None
        for turn in range(self._tries_max):
            try:
                self._sink.write(missing)
                return
            except SinkRefused as error:
                if failed is None and is_whole:
                    raise NothingWritten(str(error)) from error
                raise
            except OncegateError:
                raise
            except Exception as error:
                failed = error
            pause = min(PAUSE_MS << turn, PAUSE_MS_MAX)
            self._gateway.clock.sleep_ms(int(pause * self._gateway.rng.uniform(0.5, 1.0)))
            missing = self._missing(missing, {record.id for record in missing}, failed)
            if not missing:
                return
        raise _in_doubt(missing, f"the sink's write() failed {self._tries_max} times, last by {failed!r}") from failed

    def _missing(self, records: list[Record], doubtful: set[str], failed: Exception | None = None) -> list[Record]:
        """Return the records that are to be written: all but those of the doubtful that the sink has."""
        if not doubtful:
            return records
        try:
            present = self._sink.find(sorted(doubtful))
        except OncegateError:
            raise
        except Exception as error:
            candidates = [record for record in records if record.id in doubtful]
            why = "their earlier holder's lease ran out" if failed is None else f"write() raised {failed!r}"
            raise _in_doubt(candidates, f"{why}, and the sink's find() raised {error!r}") from error
        return [record for record in records if record.id not in doubtful & present]


def _in_doubt(records: Sequence[Record], why: str) -> InDoubt:
    ids = [record.id for record in records]
    return InDoubt(
        f"unknown: whether {len(ids)} records are in the sink, the first {ids[0]!r}: {why}. Their claim is left to its "
        "lease, and whoever delivers them next asks the sink first: deliver them again, or settle them by a Resolver",
        ids=ids,
    )
