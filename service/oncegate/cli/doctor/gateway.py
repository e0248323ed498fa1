"""Checks the running gateway: its health, its version and settings, and a claim from end to end."""

import secrets
import shutil
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote

import oncegate
from oncegate.cli.doctor.findings import DoctorFinding, ok, warning, wrong
from oncegate.cli.requests import RunningGateway
from oncegate.core.errors import Forbidden, LedgerFull, NotFound, OncegateError, Recovering, Stopping
from oncegate.engine.names import DEFAULT_NAMESPACE
from oncegate.ledgers import parse_url
from oncegate.ledgers.log.deleted import DELETED_NAME
from oncegate.settings import Settings
from oncegate.transports.pages import LIMIT_MAX

SCRATCH = "doctor-"
# The remedy, by whether a namespace is DOWN.
_TO_DO = {
    False: "it goes on by itself once that is over; its log says more",
    True: "mend that: it is opened again each minute; damage: oncegate verify --namespace NAME, then put a copy back",
}
_RIGHTS = "the key in ONCEGATE_API_KEY needs the roles write and admin everywhere ('*') for this"


def health(settings: Settings, reached: RunningGateway, namespace: str | None = None) -> Iterator[DoctorFinding]:
    """Checks readiness, of all namespaces or of one, then the version and the semantic settings."""
    try:
        answer = reached.ask("healthz/ready" if namespace is None else f"healthz/ready?namespace={quote(namespace)}")
        yield ok("gateway", f"{reached.url} is ready{'' if namespace is None else f' in namespace {namespace}'}")
        for finding_text in _not_serving(reached, answer):
            yield wrong(
                "namespace",
                finding_text,
                "its callers are refused, the others are served",
                _TO_DO[" is DOWN" in finding_text],
            )
    except OncegateError as error:
        why = "no request is sent to it by whoever asks its probe, and some are refused"
        drained = error.extra.get("code") == Stopping.code
        finding_text = error.detail.removesuffix(f" ({Recovering.action})")
        do = "oncegate drain --undo, if it is to serve" if drained else _TO_DO[" is DOWN" in finding_text]
        yield wrong("gateway", f"{reached.url} is not ready: {finding_text}", why, do)
    finding_text = reached.ask("version")
    if finding_text["version"] != oncegate.__version__:
        why = "what this program checks may not be what that one does"
        yield warning(
            "gateway", f"it is version {finding_text['version']}, this is {oncegate.__version__}", why, "install one"
        )
    if finding_text["semantics"] != settings.semantic.fingerprint():
        why = "owners of the same data have to agree on what a duplicate is"
        do = "run the doctor with the settings of the gateway (oncegate config)"
        yield warning("gateway", "its semantic settings are others than those found here", why, do)


def _not_serving(reached: RunningGateway, answer: Any) -> Iterator[str]:
    """Yields a line for each namespace of a ready gateway that does not serve.

    With keys the probe hides the names, so each namespace is requested.
    """
    if answer["namespaces"]:
        yield from filter(None, [answer.get("detail")])
        return
    after: str | None = ""
    while after is not None:
        page = reached.ask(f"v1/namespaces?limit={LIMIT_MAX}&after={quote(after)}")
        for name in page["namespaces"]:
            try:
                reached.ask(f"v1/namespaces/{name}")
            except OncegateError as error:
                # A namespace deleted meanwhile, or one that this key may not see, is no finding.
                if error.extra.get("code") not in (NotFound.code, Forbidden.code):
                    state = "RECOVERING" if error.extra.get("code") == Recovering.code else "DOWN"
                    yield f"namespace {name} is {state}: {error.detail}"
        after = page.get("next")


def claim(
    reached: RunningGateway, folders: Callable[[], tuple[Path, Path]] | None, namespace: str = DEFAULT_NAMESPACE
) -> Iterator[DoctorFinding]:
    """Claims an id, completes it and claims it again, in a temporary namespace.

    On a ledger on servers, a temporary namespace would leave topics or keys there, so an id of `namespace` is claimed
    and released instead. `folders`: returns the data and witness folders, from which the remains of the temporary
    namespace are removed.
    """
    ledger = parse_url(str(reached.ask("v1/capabilities")["ledger"]))[0]
    if ledger in ("log", "memory"):
        yield from _in_scratch(reached, folders)
    else:
        yield from _released(reached, namespace)


def _in_scratch(reached: RunningGateway, folders: Callable[[], tuple[Path, Path]] | None) -> Iterator[DoctorFinding]:
    name = SCRATCH + secrets.token_hex(4)
    path = f"v1/namespaces/{name}"
    try:
        made = reached.ask(path, method="PUT")
    except OncegateError as error:
        yield _refused("no namespace could be made", error)
        return
    try:
        first = _claimed(reached, path)
        reached.ask(f"{path}/claims/{first['claim']}:complete", method="POST")
        verdicts = [answer["verdicts"][0]["verdict"] for answer in (first, _claimed(reached, path))]
        if verdicts == ["GRANTED", "DUPLICATE"]:
            yield ok("claim", "an id was granted, completed, and is a duplicate")
        else:
            outcome = f"an id was told {verdicts[0]}, completed, then told {verdicts[1]}"
            yield wrong(
                "claim", outcome, "GRANTED and DUPLICATE are right", "stop its writers and report it with the log"
            )
    finally:
        yield from _removed(reached, name, made["ledger"], folders)


def _removed(
    reached: RunningGateway, name: str, ledger: str, folders: Callable[[], tuple[Path, Path]] | None
) -> Iterator[DoctorFinding]:
    try:
        reached.ask(f"v1/namespaces/{name}?confirm={name}", method="DELETE")
    except OncegateError as error:
        do = f"curl -X DELETE '{reached.url}/v1/namespaces/{name}?confirm={name}'"
        yield wrong("claim", f"namespace {name} is left: {error.detail}", "it takes room, and counts as one", do)
        return
    if folders is None:
        return
    data, witness = folders()
    remains = data / DELETED_NAME / f"{name}.{ledger}"
    if remains.is_dir():
        shutil.rmtree(remains)
        (witness / DELETED_NAME / f"{name}.{ledger}.witness").unlink(missing_ok=True)


def _released(reached: RunningGateway, namespace: str) -> Iterator[DoctorFinding]:
    path, name = f"v1/namespaces/{namespace}", secrets.token_hex(8)
    try:
        first = _claimed(reached, path, name)
        second = _claimed(reached, path, name)
        reached.ask(f"{path}/claims/{first['claim']}:release", method="POST")
    except OncegateError as error:
        yield _refused("no id could be claimed", error)
        return
    verdicts = [answer["verdicts"][0]["verdict"] for answer in (first, second)]
    if verdicts == ["GRANTED", "BUSY"]:
        yield ok("claim", f"an id of namespace {namespace} was granted, busy for others, and is released")
    else:
        outcome = f"an id was told {verdicts[0]}, then {verdicts[1]} to another attempt"
        yield wrong("claim", outcome, "GRANTED and BUSY are right", "stop its writers and report it with the log")


def _refused(what: str, error: OncegateError) -> DoctorFinding:
    answer = error.__cause__
    if isinstance(answer, HTTPError) and answer.code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return warning("claim", f"{what}: {error.detail}", _RIGHTS, "show such a key")
    why = "writers are refused now as well"
    if error.extra.get("code") == LedgerFull.code:
        return wrong("claim", f"{what}: {error.detail}", why, "make room for the ledger; it goes on by itself")
    return warning("claim", f"{what}: {error.detail}", why, "mend what is told of the gateway, then run this again")


def _claimed(reached: RunningGateway, path: str, name: str = "doctor") -> Any:
    message = {"token": secrets.token_hex(16), "call": 0, "ids": [name], "id_set": "oncegate doctor"}
    return reached.ask(f"{path}/ids:claim", message)
