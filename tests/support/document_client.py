"""A client for packed bodies that knows only the gateway's OpenAPI document."""

import json
import urllib.request
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

SIZES = {"u8": 1, "u32": 4}


@dataclass(frozen=True)
class PackedAnswer:
    """A decoded packed answer: the claim id as it appears in paths and, for each id, its verdict, flags and number."""

    claim: str | None
    lease_ms: int
    verdicts: list[tuple[str, list[str], int | None]]


class DocumentClient:
    def __init__(self, url: str) -> None:
        self._url = url
        with urllib.request.urlopen(f"{url}/openapi.json") as answer:
            self.document: dict[str, Any] = json.load(answer)
        self.tables = self.document["x-oncegate"]
        self._verdicts = {row["byte"]: row for row in self.tables["verdicts"]}
        self.packed = next(media for media in self.media_of("claimIds") if "packed" in media)

    def _operation(self, operation_id: str) -> tuple[str, str, dict[str, Any]]:
        for path, item in self.document["paths"].items():
            for method, operation in item.items():
                if operation["operationId"] == operation_id:
                    return method, path, operation
        raise KeyError(operation_id)

    def media_of(self, operation_id: str) -> dict[str, Any]:
        content: dict[str, Any] = self._operation(operation_id)[2]["requestBody"]["content"]
        return content

    def call(self, operation_id: str, media: str | None, body: bytes | None, given: dict[str, str]) -> bytes:
        """Sends each parameter where the document places it. Raises AssertionError for undeclared or missing
        parameters."""
        method, path, operation = self._operation(operation_id)
        headers = {"Content-Type": media} if media else {}
        query: dict[str, str] = {}
        for parameter in operation["parameters"]:
            name, bodies = parameter["name"], parameter.get("x-oncegate-bodies")
            is_for = bodies is None or media in bodies
            wanted = parameter.get("required") or parameter.get("x-oncegate-required")
            assert name in given or not (is_for and wanted), f"{operation_id} wants {name}"
            if name not in given:
                continue
            assert is_for, f"{name} is not for {media}"
            if parameter["in"] == "path":
                path = path.replace(f"{{{name}}}", quote(given.pop(name), safe=""))
            elif parameter["in"] == "query":
                query[name] = given.pop(name)
            else:
                headers[name] = given.pop(name)
        assert not given, f"{operation_id} does not name {given}"
        request = urllib.request.Request(f"{self._url}{path}?{urlencode(query)}", body, headers, method=method.upper())
        with urllib.request.urlopen(request) as answer:
            rows_read: bytes = answer.read()
            return rows_read

    def send(self, operation_id: str, body: bytes, **given: str) -> PackedAnswer:
        """Sends a packed body; the header Oncegate-Token is passed as `token`, and so on."""
        return self.read(self.call(operation_id, self.packed, body, self._named(operation_id, given)))

    def ask(self, operation_id: str, body: object = None, **given: str) -> Any:
        """Sends a JSON body, or none."""
        raw = None if body is None else json.dumps(body).encode()
        media = None if body is None else next(media for media in self.media_of(operation_id) if "json" in media)
        return json.loads(self.call(operation_id, media, raw, self._named(operation_id, given)))

    def _named(self, operation_id: str, given: dict[str, str]) -> dict[str, str]:
        names = [parameter["name"] for parameter in self._operation(operation_id)[2]["parameters"]]
        short = {name.lower().removeprefix("oncegate-").replace("-", "_"): name for name in names}
        return {short[name]: value for name, value in given.items()}

    def read(self, body: bytes) -> PackedAnswer:
        """Decodes a packed answer by the document's table of fields."""
        found: dict[str, Any] = {}
        at = 0
        for part in self.tables["packed_answer"]:
            if part["type"] == "bytes":
                found[part["field"]], at = body[at : at + part["bytes"]], at + part["bytes"]
            elif part["bytes"] == "count":
                found[part["field"]], at = body[at : at + found["count"]], at + found["count"]
            elif part["field"] == "numbers":
                found[part["field"]] = self._pairs(body[at:])
            else:
                assert SIZES[part["type"]] == part["bytes"]
                found[part["field"]], at = self._number(body[at : at + part["bytes"]]), at + part["bytes"]
        rows = [self._verdicts[byte] for byte in found["verdicts"]]
        with_number = [place for place, row in enumerate(rows) if row["number"]]
        assert sorted(found["numbers"]) == with_number
        told = [(row["verdict"], row["flags"], found["numbers"].get(place)) for place, row in enumerate(rows)]
        claim = self.claim_text(found["claim"]) if any(found["claim"]) else None
        return PackedAnswer(claim, found["lease_ms"], told)

    def _number(self, raw: bytes) -> int:
        return int.from_bytes(raw, self.tables["byte_order"])

    def _pairs(self, raw: bytes) -> dict[int, int]:
        assert len(raw) % 8 == 0
        return {self._number(raw[at : at + 4]): self._number(raw[at + 4 : at + 8]) for at in range(0, len(raw), 8)}

    def claim_text(self, raw: bytes) -> str:
        """Encodes 16 bytes as the text of a claim id."""
        rule = self.tables["claim_id"]
        number, bits, alphabet = int.from_bytes(raw, rule["byte_order"]), rule["bits_a_character"], rule["alphabet"]
        groups = [number >> bits * at & (1 << bits) - 1 for at in reversed(range(rule["characters"]))]
        return "".join(alphabet[group] for group in groups)

    def added(self, *fingerprints: str) -> str:
        """Returns the combined fingerprint of several chunks."""
        rule = self.tables["fingerprint"]
        total = sum(int.from_bytes(bytes.fromhex(one), rule["byte_order"]) for one in fingerprints)
        assert rule["add"] == "modulo 2^128"
        return (total % (1 << 128)).to_bytes(rule["bytes"], rule["byte_order"]).hex()
