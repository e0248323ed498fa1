"""Sends verbs' requests to a running gateway, and declares the options for its address and certificates."""

import http.client
import inspect
import json
import os
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from oncegate.cli.options import NamespaceOption, declare
from oncegate.cli.refusals import refusing
from oncegate.core.errors import BadRequest, NotFound, OncegateError
from oncegate.verifier.address import API_KEY, address_of, check_private

TIMEOUT_S = 10

UrlOption = Annotated[str, typer.Option(envvar="ONCEGATE_URL", help="The running gateway.")]
CaOption = Annotated[
    Path | None,
    typer.Option(envvar="ONCEGATE_CA", help="PEM file of who signed its certificate.  [default: the system's]"),
]
CertificateOption = Annotated[
    Path | None, typer.Option(envvar="ONCEGATE_CERTIFICATE", help="PEM file of your own certificate and its key.")
]


@dataclass(frozen=True)
class RunningGateway:
    """A client of a gateway at an address, for one of its namespaces.

    ca, certificate: PEM files: the authority that signed the gateway's certificate, and the client's own certificate.
    Each call sends one request, with the key in ONCEGATE_API_KEY. The body is an Arrow stream if the message is bytes,
    otherwise JSON.

    Each call raises:
        NotFound: nothing listens at the address; nothing was done.
        BadRequest: the key would be sent unencrypted, a file cannot be used, or the gateway's certificate is not
            trusted; nothing was sent.
        OncegateError: the gateway refused the request; the error has its detail, and its code in `extra["code"]`. Or
            there was no answer: the effect is unknown, unless the request was a GET.
    """

    url: UrlOption = "http://127.0.0.1:8080"
    namespace: NamespaceOption = "default"
    ca: CaOption = None
    certificate: CertificateOption = None

    def ask(self, path: str, message: object = None, method: str | None = None) -> Any:
        """Like `text`, but parses the response as JSON."""
        return json.loads(self.text(path, message, method) or "null")

    def ask_about(self, path: str, message: object = None) -> Any:
        """Like `text_about`, but parses the response as JSON."""
        return json.loads(self.text_about(path, message))

    def text_about(self, path: str, message: object = None) -> str:
        """Sends a request about the namespace and returns the response. `path` begins with its separator, / or :."""
        return self.text(f"v1/namespaces/{urllib.parse.quote(self.namespace, safe='')}{path}", message)

    def text(self, path: str, message: object = None, method: str | None = None) -> str:
        """Sends a request and returns the response. The default `method` is GET without a message, otherwise POST."""
        parts = address_of(self.url)
        whole = f"{self.url.rstrip('/')}/{path}"
        body = message if isinstance(message, bytes) or message is None else json.dumps(message).encode()
        media = "application/vnd.apache.arrow.stream" if isinstance(message, bytes) else "application/json"
        headers = {"Content-Type": media, "Accept": "application/json"} if body else {}
        request = urllib.request.Request(whole, body, headers, method=method)  # noqa: S310 - the scheme was checked
        if key := os.environ.get(API_KEY, "").strip():
            check_private(parts)
            request.add_unredirected_header("Authorization", f"Bearer {key}")
        context = self.trusted()
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=context) as reply:  # noqa: S310 - as above
                return str(reply.read().decode())
        except urllib.error.HTTPError as error:
            problem, code = _problem(error)
            raise OncegateError(problem, code=code) from error
        except urllib.error.URLError as error:
            if isinstance(error.reason, ssl.SSLCertVerificationError):
                raise BadRequest(
                    f"the certificate of {self.url} is not trusted ({error.reason.verify_message}); nothing was asked: "
                    "name the file of who has signed it by --ca"
                ) from error
            raise _not_there(self.url, error.reason) from error
        except (OSError, ValueError, http.client.HTTPException) as error:
            # The request was sent. A GET has no effect, whatever its outcome.
            reason = str(error).strip() or type(error).__name__
            if request.get_method() == "GET":
                raise _not_there(self.url, reason) from error
            raise OncegateError(
                f"the gateway at {self.url} gave no answer ({reason}): whether it was done is unknown; see what is "
                "there (`oncegate log`) before you ask again"
            ) from error

    def trusted(self) -> ssl.SSLContext | None:
        """Returns the TLS context of an https address; None for http.

        Raises NotFound if the address is invalid, BadRequest if a file cannot be used.
        """
        if address_of(self.url).scheme != "https":
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.certificate is not None:
                context.load_cert_chain(self.certificate)
        except OSError as error:
            reason = error.strerror if not isinstance(error, ssl.SSLError) else error.reason or "no certificate in it"
            files = f"--ca {self.ca}, --certificate {self.certificate}"
            raise BadRequest(f"{files}: {reason}; PEM files are wanted") from error
        return context


HERE = RunningGateway()


def asking(verb: Callable[..., None], of_namespace: bool = True) -> Callable[..., None]:
    """Replaces a verb's parameter `gateway` with the gateway options, and prints its errors as one line.

    --url and --namespace take the place of `gateway`; --ca and --certificate come last. Without `of_namespace` no
    --namespace is added: the verb needs none, or declares its own.
    """
    own = inspect.signature(verb).parameters
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    url, namespace, *certificates = (
        inspect.Parameter(field.name, kind, default=field.default, annotation=field.type)
        for field in fields(RunningGateway)
    )

    @wraps(verb)
    def run(**options: Any) -> None:
        reached = {name: options[name] for name in ("url", "namespace", "ca", "certificate") if name in options}
        with refusing():
            verb(gateway=RunningGateway(**reached), **{name: options[name] for name in own if name in options})

    declared: list[inspect.Parameter] = []
    for parameter in own.values():
        where = [url, namespace] if of_namespace else [url]
        declared += where if parameter.name == "gateway" else [parameter]
    return declare(run, [*declared, *certificates])


def _not_there(url: str, reason: object) -> NotFound:
    return NotFound(f"no gateway answers at {url} ({reason}); start one with `oncegate serve`, or name it with --url")


def _problem(error: urllib.error.HTTPError) -> tuple[str, str]:
    """Returns the detail and code of the gateway's problem document, or the HTTP status of any other response."""
    with error:
        try:
            problem = json.loads(error.read())
            return f"{problem['detail']} ({problem['action']})", problem["code"]
        except (ValueError, KeyError, TypeError):
            return f"the gateway answered {error.code}", ""
