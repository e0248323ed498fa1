"""Rejects options that would otherwise be ignored silently: misspelt, unknown, or of another write mode."""

from collections.abc import Mapping
from difflib import get_close_matches

from oncegate_spark.credentials import Credentials
from oncegate_spark.errors import BadOption
from oncegate_spark.protocol.address import GatewayAddress
from oncegate_spark.protocol.outage import SPILL
from oncegate_spark.spark.options.habits import answer
from oncegate_spark.spark.options.option import READ
from oncegate_spark.spark.options.table import BY_NAME, NAMES, OPTIONS

# Names under which users try to pass the key itself.
_KEYS = {"apikey", "key", "token", "authorization", "bearer"}
SPARKS_OWN = {"path", "paths", "queryname"}


def lower_names(options: Mapping[str, str]) -> dict[str, str]:
    """Returns the options with lower-case names, since Spark lowers some of them."""
    return {name.lower(): value for name, value in options.items()}


def check_names(raw: Mapping[str, str], mode: str = READ) -> None:
    """Raises BadOption for an option that would be ignored. `mode`: a write mode, or READ.

    With write=claim an unknown option may belong to the user's sink, unless it resembles one of ours.
    """
    for name in raw:
        if name in NAMES:
            _check_mode(NAMES[name], mode)
        elif name not in SPARKS_OWN:
            _check_stranger(name, mode)


def _check_mode(name: str, mode: str) -> None:
    """Raises BadOption if the option does not apply to this mode, with the modes to which it does."""
    modes = BY_NAME[name].modes
    if mode in modes:
        return
    if mode == READ:
        raise BadOption(f"{name} has no effect on a read; it is for writes ({_listed(modes)}): omit it")
    if modes == (READ,):
        raise BadOption(f"{name} has no effect with write={mode}; it is for reads: omit it")
    others = f" (or {_listed(modes[1:])})" if modes[1:] else ""
    raise BadOption(
        f'{name} has no effect with write={mode}; add .option("write", "{modes[0]}"){others} or omit {name}'
    )


def _listed(modes: tuple[str, ...]) -> str:
    return ", ".join(f"write={mode}" for mode in modes)


def _check_stranger(name: str, mode: str) -> None:
    if mode != "claim" and name.replace("_", "") in _KEYS:
        raise BadOption(
            "a key in an option would appear in plans, logs and event files, so it is not accepted: write it to a file "
            'and name that, .option("apiKeyFile", "/run/secrets/oncegate"), or set ONCEGATE_API_KEY'
        )
    near = get_close_matches(name, NAMES, n=1, cutoff=0.85)
    theirs = None if mode == "claim" else answer(name)
    if theirs is not None:
        raise BadOption(theirs)
    if near:
        raise BadOption(f'there is no option {name}; did you mean .option("{NAMES[near[0]]}", …)?')
    if mode != "claim":
        ours = ", ".join(sorted(option.name for option in OPTIONS if mode in option.modes))
        here = "on a read" if mode == READ else f"with write={mode}"
        raise BadOption(f"there is no option {name} {here}: omit it; the options are {ours}")


def url_of(raw: Mapping[str, str]) -> str:
    """Returns the gateway's address. Raises BadOption for an invalid one, or one that does not fit the credentials."""
    url = raw.get("url", "")
    GatewayAddress.of(url, credentials_of(raw))
    return url


def credentials_of(raw: Mapping[str, str]) -> Credentials:
    """Returns the files of key and certificates. Raises BadOption if they contradict each other."""
    names = ("apiKeyFile", "ca", "certificate", "certificateKey")
    key, ca, certificate, own = (BY_NAME[name].text(raw) for name in names)
    return Credentials(api_key_file=key, ca=ca, certificate=certificate, certificate_key=own)


def topic_of(raw: Mapping[str, str]) -> str:
    """Returns the topic from its option or the path; empty without either. Raises BadOption if they differ."""
    topic, path = raw.get("topic"), raw.get("path")
    if topic is not None and path is not None and topic != path:
        raise BadOption(f"option topic is {topic!r} and the path is {path!r}; set only one of them")
    return topic or path or ""


def on_down_of(raw: Mapping[str, str]) -> str:
    """Returns the behaviour of tasks while the gateway is down. Raises BadOption for spill, with the reason."""
    if raw.get("ondown", "").lower() == SPILL:
        raise BadOption(
            "onDown=spill is not available in Spark: Spark would discard the input of rows that are only on one "
            'executor\'s disk, although its source still has them. Set .option("onDown", "block")'
        )
    return BY_NAME["onDown"].choice(raw)
