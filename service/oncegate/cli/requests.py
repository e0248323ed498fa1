"""Asks a running gateway for verbs, with its key and by its certificates; declares the options that say where it is."""

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
    """Asks a gateway at an address, about one of its namespaces.

    ca, certificate: PEM files; by whom an https address is signed, and who asks. Each call sends one request, with the
    key of ONCEGATE_API_KEY, as a stream of Arrow where the message is bytes, else as JSON.

    Each raises NotFound: nobody answers there, nothing was done; BadRequest: the key would be read on the way, a file
    cannot be used, or its certificate is not trusted; OncegateError with the gateway's detail, and its `code` among its
    `extra`, or that there was no answer: unknown.
    """

    url: UrlOption = "http://127.0.0.1:8080"
    namespace: NamespaceOption = "default"
    ca: CaOption = None
    certificate: CertificateOption = None

    def ask(self, path: str, message: object = None, method: str | None = None) -> Any:
        """Returns the members of an answer, as `text`."""
        return json.loads(self.text(path, message, method) or "null")

    def ask_about(self, path: str, message: object = None) -> Any:
        """Returns the members of an answer about the namespace, as `text_about`."""
        return json.loads(self.text_about(path, message))

    def text_about(self, path: str, message: object = None) -> str:
        """Returns the text of an answer about the namespace; `path` is below it, and begins with its own separator."""
        return self.text(f"v1/namespaces/{urllib.parse.quote(self.namespace, safe='')}{path}", message)

    def text(self, path: str, message: object = None, method: str | None = None) -> str:
        """Returns the text of an answer. `method`: GET without a message, else POST, unless it is given."""
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
            # It was sent. What only asks has no effect, whatever became of it.
            reason = str(error).strip() or type(error).__name__
            if request.get_method() == "GET":
                raise _not_there(self.url, reason) from error
            raise OncegateError(
                f"the gateway at {self.url} gave no answer ({reason}): whether it was done is unknown; see what is "
                "there (`oncegate log`) before you ask again"
            ) from error

    def trusted(self) -> ssl.SSLContext | None:
        """Returns whom an https address is trusted by, None for http. BadRequest: a file cannot be used; NotFound."""
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
    """Makes a verb take the options of a gateway for its parameter `gateway`, and print what it raises as one line.

    --url and --namespace are where `gateway` is, --ca and --certificate the last. of_namespace: else there is no
    --namespace, or the verb declares its own.
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
    """What the gateway says, and its code; of an answer that is none of its own, the status."""
    with error:
        try:
            problem = json.loads(error.read())
            return f"{problem['detail']} ({problem['action']})", problem["code"]
        except (ValueError, KeyError, TypeError):
            return f"the gateway answered {error.code}", ""
