"""More planted bugs: batches named for sinks that the gateway does not write; see `planted`."""

from tests.mutants.mutant import Mutant, one
from tests.mutants.planted import CLIENT

_NAMED = f"{CLIENT}/spark/writers/named.py"
_TESTS = "tests/client/spark/test_named_batches.py"

NAMED_BATCHES: tuple[Mutant, ...] = (
    one(
        "a batch is named as committed before its function has returned",
        _NAMED,
        "            is_committed = gateway.abort(name, ())\n",
        "            gateway.commit(name, _order(read, notes.run))\n            is_committed = False\n",
        f"{_TESTS}::test_a_replay_of_a_committed_batch_is_not_written_again",
    ),
    one(
        "another input under a committed number is taken for its replay",
        _NAMED,
        "            if is_committed:  # whether",
        "            if False:  # whether",
        f"{_TESTS}::test_another_input_under_a_committed_number_stops_before_the_function",
    ),
    one(
        "a batch of unknown input is named",
        _NAMED,
        "            raise BadOption(UNKNOWN_INPUT)\n",
        '            read = Input(0, "0" * 64, None)\n',
        f"{_TESTS}::test_without_the_input_or_the_gateway_the_function_is_not_called",
    ),
    one(
        "two attempts have one fence",
        _NAMED,
        "            fence = gateway.driver(job).register().epoch\n",
        "            fence = 1 + gateway.driver(job).register().epoch * 0\n",
        f"{_TESTS}::test_an_attempt_that_died_leaves_it_open_and_the_next_has_a_greater_fence",
    ),
)
