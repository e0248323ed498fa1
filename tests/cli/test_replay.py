"""A dead job's input is sent again: written rows are dropped, missing ones are written, wherever the job stopped."""

import json
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from oncegate.cli import app
from oncegate.testing import LocalGateway
from oncegate.verifier.sources import gateway as asking
from oncegate.verifier.sources import inputs
from tests.support.gateway_process import GatewayProcess
from tests.support.verified import Where, mark_written, table_of, write_by_id, write_input

BATCH = 100
ROWS = 1_000


@pytest.fixture(scope="module")
def gateway() -> Iterator[LocalGateway]:
    with LocalGateway("memory:") as found:
        yield found


@pytest.fixture
def where(gateway: LocalGateway, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Where:
    """Returns a new namespace whose job died after it had written the first half of its input."""
    monkeypatch.delenv("ONCEGATE_API_KEY", raising=False)
    monkeypatch.setattr(inputs, "BATCH_ROWS", BATCH)
    found = Where(gateway.url, f"n{abs(hash(request.node.name)):x}"[:40])
    with found.client() as client:
        client.create_namespace()
    write_by_id(found, *range(ROWS // 2))
    return found


def run(where: Where, source: Path, *more: str, id_col: str = "order", topic: str = "orders") -> tuple[int, str, str]:
    named = ["replay", str(source), "--topic", topic, "--id-col", id_col, "--url", where.url]
    words = [*named, "--namespace", where.namespace, "--reason", "its job died", "--who", "ada", *more]
    result = CliRunner().invoke(app, words, prog_name="oncegate")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def replayed(where: Where, source: Path, *more: str) -> dict[str, Any]:
    """Returns the counts that are not 0."""
    status, out, err = run(where, source, *more, "--json")
    assert status == 0, err
    return {name: count for name, count in json.loads(out).items() if type(count) is int and count}


def refused(where: Where, source: Path, *more: str, **named: str) -> str:
    status, out, err = run(where, source, *more, **named)
    assert (status, out, err.count("\n")) == (1, "", 1), err
    return err


def written(where: Where) -> list[str]:
    """Returns the ids in the topic, sorted."""
    with closing(asking.GatewayClient(where.url, where.namespace)) as client:
        rows, _ = client.fetch("orders", 0, 0, 10_000, ["order"])
    return sorted(rows["order"].to_pylist())


def ids(*numbers: int) -> list[str]:
    return sorted(f"o-{number}" for number in numbers)


def trail(where: Where) -> list[tuple[str, str, str, str]]:
    words = ["log", "--json", "--url", where.url, "--namespace", where.namespace]
    told = map(json.loads, CliRunner().invoke(app, words).stdout.splitlines())
    return [(one["action"], one["subject"], one["who"], one["why"]) for one in told]


def test_a_file_of_which_half_was_written_is_whole_afterwards_and_stays_so(where: Where, tmp_path: Path) -> None:
    source = write_input(tmp_path / "orders.parquet")
    half = ROWS // 2
    assert replayed(where, source) == {"rows": ROWS, "written": half, "duplicates": half}
    assert replayed(where, source) == {"rows": ROWS, "duplicates": ROWS}
    assert written(where) == ids(*range(ROWS))
    assert trail(where) == [("replay", "topic orders, from orders.parquet", "ada", "its job died")] * 2
    line = f"{ROWS} rows read: 0 written, {ROWS} dropped as duplicates, 0 conflicts\n"
    assert run(where, source) == (0, line, "")


def test_a_folder_of_text_is_read_by_the_topics_types(where: Where, tmp_path: Path) -> None:
    pa.csv.write_csv(table_of(*range(450, 550)), tmp_path / "1.csv")
    (tmp_path / "2.ndjson").write_text('{"order": "o-550", "cents": 550.0}\n{"order": "o-550", "cents": 550}\n')
    assert replayed(where, tmp_path) == {"rows": 102, "written": 51, "duplicates": 51}
    assert written(where) == ids(*range(551))
    (tmp_path / "3.csv").write_text("order,cents\no-551,a lot\n")
    assert "line 2: column 'cents' is int64 in the topic, but the value is \"a lot\"" in refused(where, tmp_path)


ZIPS = ["00501", "501", "NA", "2.50", "2.5", "2026-11-20", "2026-11-20 00:00:00", "1E5"]


@pytest.mark.parametrize("kind", ["csv", "ndjson"])
def test_ids_of_text_are_those_that_the_job_wrote_whatever_they_look_like(
    where: Where, tmp_path: Path, kind: str
) -> None:
    """The ids do not depend on neighbours, blocks or other files: read row by row and all at once."""
    rows = pa.table({"order": ZIPS, "cents": pa.array(range(len(ZIPS)), pa.int64())})
    with where.client() as client, client.attempt() as attempt:
        attempt.produce("orders", rows, id_col="order")
    lines = [json.dumps(row) if kind == "ndjson" else f"{row['order']},{row['cents']}" for row in rows.to_pylist()]
    head = [] if kind == "ndjson" else ["order,cents"]
    for number, line in enumerate(lines):
        (tmp_path / f"{number}.{kind}").write_text("\n".join([*head, line, ""]))
    (tmp_path / f"all.{kind}").write_text("\n".join([*head, *lines, ""]))
    assert replayed(where, tmp_path) == {"rows": 2 * len(ZIPS), "duplicates": 2 * len(ZIPS)}
    (tmp_path / f"all.{kind}").write_text("\n".join([*head, *(line.replace("00501", "00502") for line in lines), ""]))
    assert replayed(where, tmp_path / f"all.{kind}") == {"rows": len(ZIPS), "written": 1, "duplicates": len(ZIPS) - 1}
    assert [one for one in written(where) if not one.startswith("o-")] == sorted([*ZIPS, "00502"])


def test_row_that_the_topic_has_no_place_for_ends_it_before_anything_is_written(where: Where, tmp_path: Path) -> None:
    source = tmp_path / "orders.ndjson"
    for line, told in (
        ('{"order": "o-501", "cents": 10.5}', "line 2: column 'cents' is int64 in the topic, but the value is 10.5"),
        ('{"order": "o-501", "cents": 1, "more": 2}', "line 2: the topic has no column more"),
    ):
        source.write_text('{"order": "o-0", "cents": 0}\n' + line + "\n")
        assert told in refused(where, source)
    assert written(where) == ids(*range(ROWS // 2))


def test_a_dry_run_reports_the_rows_to_write_and_writes_nothing(where: Where, tmp_path: Path) -> None:
    source = write_input(tmp_path / "orders.parquet")
    half = ROWS // 2
    assert replayed(where, source, "--dry-run") == {"rows": ROWS, "written": half, "duplicates": half}
    assert "500 would be written, 500 are duplicates" in run(where, source, "--dry-run")[1]
    assert (written(where), trail(where)) == (ids(*range(half)), [])


def test_a_row_whose_id_has_other_content_ends_it_or_is_left_out(where: Where, tmp_path: Path) -> None:
    with where.client() as client, client.attempt() as attempt:
        attempt.produce("orders", table_of(500, 501), id_col="order", digest_cols="cents")
    table = table_of(*range(500, 800))
    table = table.set_column(1, "cents", pa.array([0, *range(501, 800)], pa.int64()))
    pa.parquet.write_table(table, tmp_path / "orders.parquet")
    given = tmp_path / "orders.parquet", "--digest-col", "cents"
    message = refused(where, *given)
    assert "the first of them row 0" in message
    assert "98 rows written and 1 dropped as duplicates: what is written stays" in message
    counts = {"rows": 300, "written": 200, "duplicates": 99, "conflicts": 1}
    assert replayed(where, *given, "--on-conflict", "drop") == counts
    assert written(where) == ids(*range(800))
    assert "needs --digest-col" in refused(where, given[0], "--on-conflict", "drop")


def test_rows_of_an_open_claim_are_reported_and_end_with_status_1(where: Where, tmp_path: Path) -> None:
    mark_written(where, 600, complete=False)
    status, out, err = run(where, write_input(tmp_path / "orders.parquet"))
    assert (status, "499 written, 500 dropped" in out) == (1, True)
    assert "1 rows are held by open claims: neither written nor dropped" in out
    assert "run the same command again later" in err


def test_an_error_is_reported_in_one_line_without_a_traceback(
    where: Where, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_input(tmp_path / "orders.parquet")
    (tmp_path / "notes.txt").write_text("nothing")
    (tmp_path / "bad.parquet").write_text("nothing")
    monkeypatch.setattr(asking, "TRIED_S", 0.0)
    assert "--id-col names 'id', and the rows have" in refused(where, source, id_col="id")
    assert "--digest-col names 'euros'" in refused(where, source, "--digest-col", "euros")
    assert "unknown file type" in refused(where, tmp_path / "notes.txt")
    assert "is not a file" in refused(where, tmp_path / "gone.parquet")
    assert "cannot be read" in refused(where, tmp_path / "bad.parquet")
    assert "no topic ordres" in refused(where, source, topic="ordres")
    assert "no gateway answers at http://127.0.0.1:9" in refused(Where("http://127.0.0.1:9", "default"), source)
    with where.client() as client:
        client.create_namespace(shadow=True)
    assert "shadow mode" in refused(where, source)
    assert (written(where), trail(where)) == (ids(*range(ROWS // 2)), [])


def test_a_row_without_an_id_is_named(where: Where, tmp_path: Path) -> None:
    table = pa.table({"order": [*(f"o-{number}" for number in range(499, 649)), None], "cents": range(151)})
    pa.parquet.write_table(table, tmp_path / "orders.parquet")
    message = refused(where, tmp_path / "orders.parquet")
    assert f"row 150 of {tmp_path / 'orders.parquet'} has a null or empty id" in message
    assert "it came to row 100 of" in message
    assert "with 99 rows written and 1 dropped" in message


def test_a_request_whose_reply_is_lost_is_sent_again_and_its_rows_count_as_written(
    where: Where, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "_PAUSE_S", 0.0)
    good, lost = asking.GatewayClient.produce, list[Any]()

    def produce(self: asking.GatewayClient, *arguments: Any) -> Any:
        if not lost:
            monkeypatch.setattr(HTTPConnection, "getresponse", lose)
        return good(self, *arguments)

    def lose(self: HTTPConnection) -> HTTPResponse:
        monkeypatch.undo()
        lost.append(self.getresponse().read())
        raise ConnectionResetError("the reply is lost")

    monkeypatch.setattr(asking.GatewayClient, "produce", produce)
    pa.parquet.write_table(table_of(*range(490, 540)), tmp_path / "orders.parquet")
    assert replayed(where, tmp_path) == {"rows": 50, "written": 40, "duplicates": 10}
    assert lost
    assert written(where) == ids(*range(540))


def test_nothing_is_written_without_a_known_row_unless_an_option_allows_it(where: Where, tmp_path: Path) -> None:
    source = write_input(tmp_path / "orders.parquet")
    message = refused(where, source, "--id-set", "ordres")
    assert "none of the rows is known in the set 'ordres'" in message
    assert "nothing was written" in message
    assert (written(where), trail(where)) == (ids(*range(ROWS // 2)), [])
    assert "none of the rows is known: is it this set" in run(where, source, "--id-set", "ordres", "--dry-run")[1]
    pa.parquet.write_table(table_of(500, *range(500, 750), 500), source)
    assert "none of the rows" in refused(where, source)
    counts = {"rows": 252, "written": 250, "duplicates": 2}
    assert replayed(where, source, "--allow-none-known") == counts
    assert written(where) == ids(*range(750))
    pa.parquet.write_table(table_of(), source)
    assert replayed(where, source) == {}


@pytest.mark.server
@pytest.mark.parametrize("after", [False, True], ids=["before it wrote", "before it answered"])
def test_a_replay_that_was_killed_continues_and_writes_each_row_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    source, sent = write_input(tmp_path / "orders.parquet"), list[int]()
    monkeypatch.setattr(inputs, "BATCH_ROWS", BATCH)
    monkeypatch.setattr(asking, "TRIED_S", 0.0)
    with GatewayProcess(tmp_path) as gateway:
        where = Where(gateway.url, "default")
        write_by_id(where, *range(ROWS // 2))
        good = asking.GatewayClient.produce

        def produce(self: asking.GatewayClient, *arguments: Any) -> Any:
            sent.append(1)
            if len(sent) != 8:
                return good(self, *arguments)
            if after:
                good(self, *arguments)
            gateway.kill()
            return good(self, *arguments)

        monkeypatch.setattr(asking.GatewayClient, "produce", produce)
        message = refused(where, source)
        assert "no gateway answers" in message
        assert "it came to row 700 of" in message
        gateway.start()
        rest = 300 - BATCH * after
        assert replayed(where, source) == {"rows": ROWS, "written": rest, "duplicates": ROWS - rest}
        assert written(where) == ids(*range(ROWS))
        assert len(trail(where)) == 2
