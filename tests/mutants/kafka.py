"""Planted bugs of transactions on Kafka."""

from tests.mutants.mutant import Mutant, one

_GUARD = "service/oncegate/ledgers/kafka/guard.py"
_TESTS = "tests/faults/kafka/test_guard.py"
_BATCHES = "service/oncegate/ledgers/kafka/record_batch.py"
_BATCH_TESTS = "tests/faults/kafka/test_record_batch.py"

KAFKA: tuple[Mutant, ...] = (
    one(
        "a transaction is committed without its batches' own outcomes",
        _GUARD,
        "                return [told.offset for told in await asyncio.gather(*(future for _, future in sent))]\n",
        "                await asyncio.wait([future for _, future in sent])\n                return [0 for _ in sent]\n",
        f"{_TESTS}::test_a_transaction_of_which_one_batch_is_refused_is_not_written_at_all",
    ),
    one(
        "a commit whose answer is lost is sent again",
        _GUARD,
        "            if self._ends_sent > 1:\n",
        "            if self._ends_sent > 2:\n",
        f"{_TESTS}::test_a_commit_whose_answer_is_lost_is_in_doubt_and_sent_once",
    ),
    one(
        "a producer goes on after a transaction that ended badly",
        _GUARD,
        "            except BaseException:\n                await self.close()\n                raise\n",
        "            except BaseException:\n                raise\n",
        f"{_TESTS}::test_a_transaction_of_which_one_batch_is_refused_is_not_written_at_all",
    ),
    one(
        "a caller that goes away stops its transaction",
        _GUARD,
        "    return await asyncio.shield(task)\n",
        "    return await task\n",
        f"{_TESTS}::test_a_commit_goes_on_when_its_caller_goes_away",
    ),
    one(
        "a fenced producer is told as one that may try again",
        _GUARD,
        "        except ProducerFenced as error:\n",
        "        except ZeroDivisionError as error:\n",
        f"{_TESTS}::test_a_newer_producer_of_the_same_id_fences_an_older_one",
    ),
    one(
        "a producer's sequence turns negative",
        _BATCHES,
        "        self._producer = producer_id, epoch, sequence & _SEQUENCES\n",
        "        self._producer = producer_id, epoch, sequence\n",
        f"{_BATCH_TESTS}::test_a_sequence_goes_on_from_0_where_aiokafkas_turns_negative",
    ),
    one(
        "a batch is cut behind the room that it has",
        _BATCHES,
        '        cuts.append(int(np.searchsorted(ends, before + room, side="right")))\n',
        '        cuts.append(int(np.searchsorted(ends, before + 2 * room, side="right")))\n',
        f"{_BATCH_TESTS}::test_records_are_cut_into_batches_that_a_broker_takes_and_lose_nothing",
    ),
    one(
        "a null is written as an empty value",
        _BATCHES,
        "        place = _put(out, place, length)\n        if length > 0:\n",
        "        place = _put(out, place, max(length, 0))\n        if length > 0:\n",
        f"{_BATCH_TESTS}::test_a_batch_is_byte_for_byte_what_the_builder_makes",
    ),
)
