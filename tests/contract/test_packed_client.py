"""A client written from the document alone claims, completes and gets DUPLICATE, with packed bodies only."""

import base64
import hashlib
import json
import uuid
from collections.abc import Iterator

import pyarrow as pa
import pytest

from oncegate.core.verdicts import BY_BYTE, Flag
from oncegate.transports.decode.identifiers import claim_text
from tests.support.document_client import DocumentClient
from tests.support.gateway_process import GatewayProcess

pytestmark = pytest.mark.server
NS = {"namespace": "default"}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DocumentClient]:
    with GatewayProcess(tmp_path_factory.mktemp("gateway")) as process:
        yield DocumentClient(process.url)


def attempt(call: int = 0) -> dict[str, str]:
    return {**NS, "token": uuid.uuid4().hex, "call": str(call)}


def packed(*names: str) -> bytes:
    return b"".join(hashlib.sha256(name.encode()).digest()[:16] for name in names)


def test_ids_are_claimed_completed_and_then_a_duplicate(client: DocumentClient) -> None:
    first, ids = attempt(), packed("a", "b", "a")
    answer = client.send("claimIds", ids, **first, lease_ms="30000")
    assert answer.verdicts == [("GRANTED", [], None), ("GRANTED", [], None), ("SAME", [], 0)]
    assert answer.lease_ms == 30_000
    [(verdict, _, left_ms)] = client.send("claimIds", packed("b"), **attempt()).verdicts
    assert (verdict, 0 < (left_ms or 0) <= 30_000) == ("BUSY", True)
    assert answer.claim is not None
    assert client.ask("completeClaim", claim=answer.claim, **NS)["settled"] == 2
    again = client.send("claimIds", ids, **attempt())
    assert again.claim is None
    assert again.verdicts == [("DUPLICATE", [], None), ("DUPLICATE", [], None), ("SAME", [], 0)]
    own = client.send("claimIds", ids, **{**first, "call": "1"})
    assert own.verdicts[:2] == [("DUPLICATE", ["own"], None)] * 2


def test_ids_with_another_payload_are_a_conflict(client: DocumentClient) -> None:
    answer = client.send("claimIds", packed("p", "payload"), **attempt(), payloads="1")
    client.ask("completeClaim", claim=str(answer.claim), **NS)
    assert client.send("claimIds", packed("p", "other"), **attempt(), payloads="1").verdicts[0][0] == "CONFLICT"


def test_a_taken_id_is_its_owners(client: DocumentClient) -> None:
    assert client.send("takeIds", packed("t"), **NS, owner="ours").verdicts == [("GRANTED", [], None)]
    assert client.send("takeIds", packed("t"), **NS, owner="theirs").verdicts == [("DUPLICATE", [], None)]


def test_a_producer_registers_claims_completes_and_is_acked(client: DocumentClient) -> None:
    token, lane = uuid.uuid4().hex, {**NS, "producer": "events-3"}
    epoch = client.ask("registerProducer", {"token": token, "driver": "job"}, **lane)["epoch"]
    sequences = b"".join(number.to_bytes(8, client.tables["byte_order"]) for number in (5, 6, 9))
    held = {"token": token, "epoch": str(epoch), "call": "0"}
    assert [row[0] for row in client.send("claimSequences", sequences, **lane, **held).verdicts] == ["GRANTED"] * 3
    settled = client.ask("completeSequences", {"token": token, "epoch": epoch, "call": 0}, **lane)
    assert settled["settled"] == 3
    driver = client.ask("registerDriver", {"token": token}, **NS, driver="job")["epoch"]
    acked = {"token": token, "epoch": driver, "upto": [{"producer": "events-3", "sequence": 9}]}
    assert client.ask("ackProducers", acked, **NS, driver="job")["refused"] == []
    late = client.send("claimSequences", sequences, **lane, **{**held, "call": "1"})
    assert [row[0] for row in late.verdicts] == ["STALE"] * 3


def test_the_fingerprints_of_chunks_add_up_to_what_a_commit_takes(client: DocumentClient) -> None:
    name, token, staged = {"app": "a", "version": "1", "topic": "t"}, uuid.uuid4().hex, []
    [arrow] = client.media_of("stageChunk")
    for chunk in range(2):
        body = stream({"n": [chunk, 7]})
        named = {**NS, **name, "owner": "job:a", "chunk": str(chunk), "Oncegate-Token": token}
        named["Content-Digest"] = f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:"
        staged.append(json.loads(client.call("stageChunk", arrow, body, named)))
    fingerprint = client.added(*(one["fingerprint"] for one in staged))
    winner = {"token": token, "chunks": 2, "rows": 4, "fingerprint": fingerprint}
    commit = {"name": name, "nonce": token, "winners": [winner]}
    assert client.ask("commitBatch", commit, **NS)["outcome"] == "COMMITTED"


def stream(columns: dict[str, list[int]]) -> bytes:
    table, sink = pa.table(columns), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def test_the_documents_table_is_the_one_that_verdicts_are_written_with(client: DocumentClient) -> None:
    table = {row["byte"]: row for row in client.tables["verdicts"]}
    assert table.keys() == BY_BYTE.keys()
    for byte, row in BY_BYTE.items():
        flags = [flag.name.lower() for flag in Flag if flag in row.flags]
        found = table[byte]
        assert (found["verdict"], found["flags"], found["number"]) == (row.verdict.name, flags, row.number)
        assert f"| 0x{byte:02x} | {', '.join([row.verdict.name, *flags])} |" in client.document["info"]["description"]


def test_the_documents_rule_for_claim_ids_is_the_gateways(client: DocumentClient) -> None:
    example = client.tables["claim_id"]["example"]
    for raw in (bytes.fromhex(example["bytes"]), bytes(16), b"\xff" * 16, bytes(range(240, 256))):
        assert client.claim_text(raw) == claim_text(raw)
    assert client.claim_text(bytes.fromhex(example["bytes"])) == example["text"]
