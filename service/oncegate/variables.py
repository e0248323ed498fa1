"""Finds environment variables named ONCEGATE_* that are not settings."""

import re
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches

PREFIX = "ONCEGATE_"
# Variables of clients and of verbs that call a gateway; they are often set in the same environment.
CLIENTS = frozenset(
    {"ONCEGATE_API_KEY", "ONCEGATE_URL", "ONCEGATE_CA", "ONCEGATE_CERTIFICATE", "ONCEGATE_REGISTRY_AUTH"}
)
# Kubernetes sets service links (originally Docker's) in each container for a Service whose name begins with oncegate.
# Some settings that end in PORT have such names, so for those the value is examined too.
_LINK = re.compile(
    "ONCEGATE(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_LINKED = re.compile("(tcp|udp|sctp)://.*")


def unusable(environment: Mapping[str, str], settings: Collection[str], configured: Collection[str]) -> Iterator[str]:
    """Yields an error for each variable that is not a setting, a client's variable or a link of Kubernetes.

    settings: all names. configured: those given by flags, which the environment does not change.
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
    """Returns the variables that are not settings, clients' variables or links of Kubernetes, in capitals."""
    names = CLIENTS | {PREFIX + name.upper() for name in settings}
    mine = {name.upper(): value for name, value in environment.items() if name.upper().startswith(PREFIX)}
    return [name for name, value in mine.items() if name not in names and not _is_link(name, value)]


def _is_link(variable: str, value: str) -> bool:
    return bool(_LINK.fullmatch(variable) or (variable.endswith("_PORT") and _LINKED.fullmatch(value)))


def no_setting(where: str, name: str, settings: Collection[str], prefix: str = "") -> str:
    """Returns the error for an unknown setting, with the most similar name; with a prefix, formats both as
    variables.
    """
    near = get_close_matches(name, settings, 1)
    shown, *instead = [prefix + candidate.upper() if prefix else candidate for candidate in (name, *near)]
    advice = f"the nearest is {instead[0]}" if instead else "`oncegate config` lists them"
    return f"{where}: there is no setting {shown}; {advice}"
