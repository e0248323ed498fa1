"""Tells which variables ONCEGATE_* of the environment are no settings, and for whom they may be."""

import re
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches

PREFIX = "ONCEGATE_"
# What clients and verbs that ask a gateway read: no settings, and often beside them.
CLIENTS = frozenset(
    {"ONCEGATE_API_KEY", "ONCEGATE_URL", "ONCEGATE_CA", "ONCEGATE_CERTIFICATE", "ONCEGATE_REGISTRY_AUTH"}
)
# What Kubernetes gives to each container beside a Service whose name begins with oncegate: its service links, which
# were Docker's. Settings are called as some that end in PORT, so that for those the value has to tell.
_LINK = re.compile(
    "ONCEGATE(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_LINKED = re.compile("(tcp|udp|sctp)://.*")


def unusable(environment: Mapping[str, str], settings: Collection[str], configured: Collection[str]) -> Iterator[str]:
    """Yields why a variable cannot be used, for each that is no setting, no client's and no link of Kubernetes.

    `settings`: all names. `given`: those that flags give, which the environment does not change.
    """
    for variable in unknown(environment, settings):
        name = variable.removeprefix(PREFIX).lower()
        yield no_setting("the environment", name, settings, PREFIX) + ", or unset it"
    for name in sorted(settings):
        value = environment.get(PREFIX + name.upper(), "")
        if name.endswith("port") and _LINKED.fullmatch(value) and name not in configured:
            yield (
                f"{PREFIX}{name.upper()}={value} is what Kubernetes says of a Service, and no value of the setting "
                f"{name}: say enableServiceLinks: false in the pod, or give the setting its value there"
            )


def unknown(environment: Mapping[str, str], settings: Collection[str]) -> list[str]:
    """Returns the variables that are no settings, no client's and no links of Kubernetes, in capitals."""
    names = CLIENTS | {PREFIX + name.upper() for name in settings}
    mine = {name.upper(): value for name, value in environment.items() if name.upper().startswith(PREFIX)}
    return [name for name, value in mine.items() if name not in names and not _is_link(name, value)]


def _is_link(variable: str, value: str) -> bool:
    return bool(_LINK.fullmatch(variable) or (variable.endswith("_PORT") and _LINKED.fullmatch(value)))


def no_setting(where: str, name: str, settings: Collection[str], prefix: str = "") -> str:
    """Says that a name is no setting, and which one is like it; with a prefix both in capitals behind it."""
    near = get_close_matches(name, settings, 1)
    shown, *instead = [prefix + candidate.upper() if prefix else candidate for candidate in (name, *near)]
    advice = f"the nearest is {instead[0]}" if instead else "`oncegate config` lists them"
    return f"{where}: there is no setting {shown}; {advice}"
