"""The options of a user, and the names of a write."""

import pytest

from oncegate_spark.errors import BadOption, NoIdentity
from oncegate_spark.protocol.names import BatchName
from oncegate_spark.spark.checkpoint import BatchInput, DriverNotes
from oncegate_spark.spark.options import OPTIONS, Option, Options, option_rows
from oncegate_spark.spark.readers import ReadOptions
from oncegate_spark.spark.task_identity import Task, input_of, name_of

LEAST = {"url": "http://127.0.0.1:8080", "path": "t"}
CLAIM = {"url": "http://x", "write": "claim", "idCol": "id", "sink": "a:b"}
LANES = {"url": "http://x", "write": "claim", "producerCol": "p", "sequenceCol": "s", "sink": "a:b"}
READ = BatchInput(4, "aa", "bb")


def options(**given: str) -> Options:
    return Options.read({**LEAST, **given})


def test_the_defaults_are_safe() -> None:
    read = options()
    assert (read.write, read.namespace, read.topic, read.timeout_ms) == ("staged", "default", "t", 120_000)
    assert read.first_wins is False


def test_names_are_read_in_any_case_as_spark_gives_them() -> None:
    read = Options.read({**LEAST, "TXNAPPID": "a", "onreplaymismatch": "first_wins", "WriteId": "w"})
    assert (read.app, read.first_wins, read.write_id) == ("a", True, "w")


@pytest.mark.parametrize("given", [LANES, {**CLAIM, "scope": "retry"}])
def test_a_driver_may_be_named_where_there_is_one(given: dict[str, str]) -> None:
    assert Options.read({**given, "txnAppId": "load"}).app == "load"


def test_a_row_is_known_by_its_producer_and_sequence_in_the_place_of_an_id() -> None:
    read = Options.read({**LANES, "producerCol": " lane ", "sequenceCol": "at"})
    assert (read.lane_names, read.id_names, read.is_scoped, read.has_driver) == (("lane", "at"), (), False, True)


def test_ids_belong_to_the_namespace_unless_their_scope_is_the_retry() -> None:
    assert [Options.read({**CLAIM, **more}).is_scoped for more in ({}, {"scope": "namespace"}, {"scope": "retry"})] == [
        False,
        False,
        True,
    ]


def test_an_id_may_have_several_columns() -> None:
    assert Options.read({**CLAIM, "idCol": "a, b,c"}).id_names == ("a", "b", "c")


@pytest.mark.parametrize("write", ["staged", "ids", "plain"])
def test_a_key_may_have_several_columns_in_every_mode_that_writes_to_a_topic(write: str) -> None:
    by_id = {"idCol": "id"} if write == "ids" else {}
    assert options(write=write, **by_id, keyCol="a, b").key_names == ("a", "b")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"path": "t"}, r'option\("url"'),
        ({"url": "gateway:8080", "path": "t"}, r'option\("url"'),
        ({"url": "http://h:abc", "path": "t"}, r'option\("url"'),
        ({"url": "http://x"}, r'option\("topic"'),
        ({**LEAST, "topic": "other"}, "one of them"),
        ({**LEAST, "write": "direct"}, "recognises a row only by its sequence"),
        ({**LEAST, "write": "Staged"}, "staged, ids, claim, plain"),
        ({**LEAST, "onReplayMismatch": "ignore"}, "fail, first_wins"),
        ({**LEAST, "txnVersion": "1"}, "txnAppId"),
        ({**LEAST, "txnAppld": "1"}, r'did you mean .option\("txnAppId"'),
        ({**CLAIM, "leaseMs": "30s"}, "milliseconds"),
        ({**CLAIM, "leaseMs": "999"}, "1000 to 900000"),
        ({**CLAIM, "idCol": " "}, r'option\("idCol"'),
        ({**CLAIM, "sink": ""}, r"oncegate_spark.spark.sinks:files"),
        ({**CLAIM, "keyCol": "a"}, r'write=claim; add .option\("write", "staged"\) \(or write=ids, write=plain\)'),
        ({**LEAST, "write": "ids"}, r'write=ids .*option\("idCol"'),
        ({"url": "http://x", "write": "ids", "idCol": "id"}, r'option\("topic"'),
        (
            {**LEAST, "write": "ids", "idCol": "id", "sink": "a:b"},
            r'write=ids; add .option\("write", "claim"\) or omit sink',
        ),
        ({**LEAST, "keyCols": "a"}, r'did you mean .option\("keyCol"'),
        ({**LANES, "sequenceCol": ""}, r'option\("sequenceCol"'),
        ({**LANES, "producerCol": " "}, r'option\("producerCol"'),
        ({**LANES, "idCol": "id"}, "omit one of them"),
        ({**LANES, "scope": "retry"}, "scope=retry is for idCol"),
        ({**LANES, "idSet": "both"}, "idSet is for idCol"),
        ({**LEAST, "idSet": "both"}, "idSet has no effect with write=staged"),
        ({**LEAST, "onDown": "wait"}, "one of block, fail"),
        ({**LEAST, "onDown": "spill"}, r'on one executor.*option\("onDown", "block"'),
        ({**CLAIM, "scope": "batch"}, "namespace, retry"),
        ({**LANES, "asyncProgressTrackingEnabled": "true"}, "commit log late"),
        ({**CLAIM, "scope": "retry", "asyncProgressTrackingEnabled": "TRUE"}, "commit log late"),
    ],
)
def test_a_wrong_option_is_answered_with_the_line_to_write(given: dict[str, str], told: str) -> None:
    with pytest.raises(BadOption, match=told):
        Options.read(given)


def test_with_claim_an_option_that_resembles_none_of_ours_is_the_sinks() -> None:
    assert Options.read({**CLAIM, "kafkaServers": "k"}).raw["kafkaservers"] == "k"


BY_MODE = {
    "staged": LEAST,
    "ids": {**LEAST, "write": "ids", "idCol": "id"},
    "claim": CLAIM,
    "plain": {**LEAST, "write": "plain"},
    "read": LEAST,
}
READING = ("startingOffsets", "endingOffsets", "maxRowsPerBatch", "failOnDataLoss", "columns", "includeOffsets")
BELONGS = {
    "write": {"staged", "ids", "claim", "plain"},
    "idCol": {"ids", "claim"},
    "keyCol": {"staged", "ids", "plain"},
    **{name: {"claim"} for name in ("sink", "sinkPath", "leaseMs")},
    **{name: {"ids", "claim"} for name in ("producerCol", "sequenceCol", "scope")},
    **{name: {"staged"} for name in ("txnAppId", "txnVersion", "writeId", "onReplayMismatch")},
    **{name: {"read"} for name in READING},
}


@pytest.mark.parametrize("mode", BY_MODE)
@pytest.mark.parametrize("name", BELONGS)
def test_an_option_of_another_write_mode_is_refused_with_the_mode_it_belongs_to(name: str, mode: str) -> None:
    if mode in BELONGS[name]:
        return
    read = ReadOptions.read if mode == "read" else Options.read
    with pytest.raises(BadOption, match=rf"^{name} has no effect (on a |with write=){mode}; ") as raised:
        read({**BY_MODE[mode], name: "1"})
    message = str(raised.value)
    assert all(other == "read" or other in message for other in BELONGS[name])
    assert ("for reads" in message) == (BELONGS[name] == {"read"})


@pytest.mark.parametrize("mode", BY_MODE)
def test_what_every_write_mode_takes_is_taken(mode: str) -> None:
    read = ReadOptions.read if mode == "read" else Options.read
    given = {"namespace": "n", "topic": "t", "timeoutMs": "5000", "checkpointLocation": "/c", "queryName": "q"}
    assert read({**BY_MODE[mode], **given}).namespace == "n"


@pytest.mark.parametrize("mode", sorted(BY_MODE.keys() - {"claim"}))
def test_an_unknown_option_is_refused_with_the_known_ones(mode: str) -> None:
    read = ReadOptions.read if mode == "read" else Options.read
    with pytest.raises(BadOption, match=r"no option kafkaservers (on a|with write=).*the options are .*namespace.*url"):
        read({**BY_MODE[mode], "kafkaServers": "k"})


def test_a_streaming_write_is_named_by_query_and_batch() -> None:
    assert name_of(options(), Task(query="q", batch="4")) == BatchName("q", "4", "t")


def test_an_app_id_takes_the_place_of_the_query_and_keeps_the_batch() -> None:
    assert name_of(options(txnAppId="a", writeId="w"), Task(query="q", batch="4")) == BatchName("a", "4", "t", "w")


def test_app_id_and_version_name_a_batch_job_and_a_thread() -> None:
    assert name_of(options(txnAppId="a", txnVersion="v"), Task()) == BatchName("a", "v", "t")


@pytest.mark.parametrize("given", [{}, {"txnAppId": "a"}])
def test_no_identity_no_write(given: dict[str, str]) -> None:
    with pytest.raises(NoIdentity, match=r'option\("txnVersion".*option\("write", "plain"\)'):
        name_of(options(**given), Task(partition=3, attempt=1, run="r"))


def test_what_foreach_batch_notes_is_taken_only_for_the_batch_it_was_noted_for() -> None:
    noted = DriverNotes(input=READ)
    assert input_of(Task(notes=noted, batch="4"), "4", None) == READ
    assert input_of(Task(notes=noted), "4", None) == READ
    assert input_of(Task(notes=noted, batch="5"), "5", None) is None
    assert input_of(Task(notes=noted), "2026-11-20", None) is None
    assert input_of(Task(), "4", READ) == READ
    assert input_of(Task(), "4", None) is None


def test_the_drivers_notes_survive_their_way_to_the_tasks() -> None:
    for notes in (DriverNotes(), DriverNotes(READ, "/c", "run", {"default": "m"})):
        assert DriverNotes.from_json(notes.to_json()) == notes
    assert DriverNotes.from_json(None) is None


FILES = {"apiKeyFile", "ca", "certificate", "certificateKey"}  # which must exist
OTHERS = {"url", "topic", "columns"} | FILES
READABLE = [one for one in OPTIONS if "read" in one.modes and one.name not in OTHERS]


def refuses(option: Option, call: str) -> bool:
    """Returns whether a read of this kind refuses the option."""
    value = str(option.least) if option.unit else option.default or "latest"
    read = ReadOptions.read({**LEAST, option.name: value})
    try:
        read.of_a_batch() if call == "spark.read" else read.of_a_stream()
    except BadOption:
        return True
    return False


@pytest.mark.parametrize("option", READABLE, ids=lambda option: option.name)
@pytest.mark.parametrize("call", ["spark.read", "spark.readStream"])
def test_the_table_lists_which_reads_accept_an_option(option: Option, call: str) -> None:
    assert refuses(option, call) == (call not in option.calls)


def test_the_table_of_options_is_complete_and_each_row_has_a_text() -> None:
    assert len({option.key for option in OPTIONS}) == len(OPTIONS)
    for row in option_rows():
        assert all(row), row
        assert row[-1].endswith("."), row


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_a_default_is_one_of_the_values(option: Option) -> None:
    assert option.default is None or not option.allowed or option.default in option.allowed
