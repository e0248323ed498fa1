"""Tries a gateway as `helm test` does: an id is claimed and completed, and is a duplicate of another attempt then.

python helm_test.py URL NAMESPACE [FILE OF A KEY | --without-key]

`--without-key`: the gateway asks for keys, and none is known here; then a claim has to be refused (401).
"""

import json
import secrets
import sys
import time
import urllib.error
import urllib.request

READY_S = 60


def main() -> int:
    """Tries it; returns 0, or 1 behind a line that says what was otherwise."""
    url, namespace, *credentials = sys.argv[1:]
    if not is_ready(url):
        return failed(f"{url} was not ready within {READY_S} s")
    headers = {"content-type": "application/json"}
    if credentials == ["--without-key"]:
        status, answer = post(f"{url}/v1/namespaces/{namespace}/ids:claim", headers, claim("refused"))
        return said("a claim without a key is refused") if status == 401 else failed(f"without a key: {answer}")
    for path in credentials:
        with open(path) as file:
            headers["authorization"] = f"Bearer {file.read().strip()}"
    return claimed_twice(f"{url}/v1/namespaces/{namespace}", headers)


def claimed_twice(base: str, headers: dict[str, str]) -> int:
    """Claims and completes an id, and claims it as another attempt."""
    name = secrets.token_hex(8)
    status, first = post(f"{base}/ids:claim", headers, claim(name))
    if status != 200 or first["verdicts"][0]["verdict"] != "GRANTED":
        return failed(f"the first claim: {status} {first}")
    status, settled = post(f"{base}/claims/{first['claim']}:complete", headers, {"result": "b25jZQ=="})
    if status != 200 or settled["settled"] != 1:
        return failed(f"its completion: {status} {settled}")
    status, second = post(f"{base}/ids:claim", headers, claim(name))
    if status != 200 or second["verdicts"][0]["verdict"] != "DUPLICATE":
        return failed(f"the second claim: {status} {second}")
    return said("an id was granted once, and was a duplicate then")


def claim(name: str) -> dict[str, object]:
    """The body of a claim by an attempt of its own."""
    return {"token": secrets.token_hex(16), "call": 0, "ids": [name], "id_set": "helm-test"}


def is_ready(url: str) -> bool:
    """Waits until the gateway is ready: right after an installation it may not be yet."""
    end = time.monotonic() + READY_S
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"{url}/healthz/ready", timeout=5):
                return True
        except OSError:
            time.sleep(1)
    return False


def post(url: str, headers: dict[str, str], body: dict[str, object]) -> tuple[int, dict]:
    """Posts JSON; the status and what was answered, also of a refusal."""
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def said(line: str) -> int:
    """Says what was found, and that all is well."""
    print(line)
    return 0


def failed(line: str) -> int:
    """Says what was otherwise."""
    print(f"FAILED: {line}")
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
