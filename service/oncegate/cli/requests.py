"""Sends requests of verbs to a running gateway, with its key and by its certificates, and returns the answers."""

import http.client
import json
import os
import ssl
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from oncegate.core.errors import BadRequest, NotFound, OncegateError
from oncegate.verifier.address import API_KEY, address_of, check_private

TIMEOUT_S = 10


def answer_about(
    url: str,
    namespace: str,
    path: str,
    message: object = None,
    ca: Path | None = None,
    certificate: Path | None = None,
) -> str:
    """Sends a request about a namespace, as `answer_of`; `path` is below it. Returns the answer's text."""
    return answer_of(url, f"v1/namespaces/{urllib.parse.quote(namespace, safe='')}/{path}", message, ca, certificate)


def answer_of(
    url: str,
    path: str,
    message: object = None,
    ca: Path | None = None,
    certificate: Path | None = None,
    method: str | None = None,
) -> str:
    """Sends one request to a running gateway, with the key of ONCEGATE_API_KEY, and returns the answer's text.

    `message`: bytes are an Arrow stream, all else is sent as JSON. `method`: GET without a message, else POST, unless
    it is given.

    Raises NotFound: nobody answers there, nothing was done; BadRequest: the key would be read on the way, a file cannot
    be used, or its certificate is not trusted; OncegateError with what the gateway says, and its `code` among its
    `extra`, or that there was no answer: unknown.
    """
    parts = address_of(url)
    whole = f"{url.rstrip('/')}/{path}"
    body = message if isinstance(message, bytes) or message is None else json.dumps(message).encode()
    media = "application/vnd.apache.arrow.stream" if isinstance(message, bytes) else "application/json"
    headers = {"Content-Type": media, "Accept": "application/json"} if body else {}
    request = urllib.request.Request(whole, body, headers, method=method)  # noqa: S310 - the scheme was checked
    if key := os.environ.get(API_KEY, "").strip():
        check_private(parts)
        request.add_unredirected_header("Authorization", f"Bearer {key}")
    context = trusted(url, ca, certificate)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=context) as reply:  # noqa: S310 - as above
            return str(reply.read().decode())
    except urllib.error.HTTPError as error:
        problem, code = _problem(error)
        raise OncegateError(problem, code=code) from error
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            raise BadRequest(
                f"the certificate of {url} is not trusted ({error.reason.verify_message}); nothing was asked: name the "
                "file of who has signed it by --ca"
            ) from error
        raise _not_there(url, error.reason) from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        # It was sent. What only asks has no effect, whatever became of it.
        reason = str(error).strip() or type(error).__name__
        if request.get_method() == "GET":
            raise _not_there(url, reason) from error
        raise OncegateError(
            f"the gateway at {url} gave no answer ({reason}): whether it was done is unknown; see what is there "
            "(`oncegate log`) before you ask again"
        ) from error


def _not_there(url: str, reason: object) -> NotFound:
    return NotFound(f"no gateway answers at {url} ({reason}); start one with `oncegate serve`, or name it with --url")


def trusted(url: str, ca: Path | None, certificate: Path | None) -> ssl.SSLContext | None:
    """Returns whom an https address is trusted by, None for http. BadRequest: a file cannot be used; NotFound."""
    if address_of(url).scheme != "https":
        return None
    try:
        context = ssl.create_default_context(cafile=ca)
        if certificate is not None:
            context.load_cert_chain(certificate)
    except OSError as error:
        reason = error.strerror if not isinstance(error, ssl.SSLError) else error.reason or "no certificate in it"
        raise BadRequest(f"--ca {ca}, --certificate {certificate}: {reason}; PEM files are wanted") from error
    return context


def _problem(error: urllib.error.HTTPError) -> tuple[str, str]:
    """What the gateway says, and its code; of an answer that is none of its own, the status."""
    with error:
        try:
            problem = json.loads(error.read())
            return f"{problem['detail']} ({problem['action']})", problem["code"]
        except (ValueError, KeyError, TypeError):
            return f"the gateway answered {error.code}", ""
