"""Planted bugs of transactions on Kafka."""

from tests.mutants.mutant import Mutant, one

_GUARD = "service/oncegate/ledgers/kafka/guard.py"
_TESTS = "tests/faults/kafka/test_guard.py"

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
)
