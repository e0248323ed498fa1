"""Options that would be ignored in silence are refused: misspelt, unknown, or of another write mode."""

from collections.abc import Mapping
from difflib import get_close_matches

from oncegate_spark.credentials import Credentials
from oncegate_spark.errors import BadOption
from oncegate_spark.protocol.address import GatewayAddress
from oncegate_spark.protocol.outage import SPILL
from oncegate_spark.spark.options.habits import answer
from oncegate_spark.spark.options.option import READ
from oncegate_spark.spark.options.table import BY_NAME, NAMES, OPTIONS

# What people call the option that would hold the key itself.
_KEYS = {"apikey", "key", "token", "authorization", "bearer"}
SPARKS_OWN = {"path", "paths", "queryname"}


def lower_names(options: Mapping[str, str]) -> dict[str, str]:
    """The options by their names in lower case, as Spark gives some of them."""
    return {name.lower(): value for name, value in options.items()}


def check_names(raw: Mapping[str, str], mode: str = READ) -> None:
    """Raises BadOption for what would be ignored in silence. `mode`: a write mode, or READ.

    With write=claim one that resembles none of ours may be the user's sink's.
    """
    for name in raw:
        if name in NAMES:
            _check_mode(NAMES[name], mode)
        elif name not in SPARKS_OWN:
            _check_stranger(name, mode)


def _check_mode(name: str, mode: str) -> None:
    """Raises BadOption when the option does nothing in this mode, with the modes in which it does."""
    modes = BY_NAME[name].modes
    if mode in modes:
        return
    if mode == READ:
        raise BadOption(f"{name} does nothing on a read; it is for writing ({_listed(modes)}): leave it out")
    if modes == (READ,):
        raise BadOption(f"{name} does nothing with write={mode}; it is for reading: leave it out")
    others = f" (or {_listed(modes[1:])})" if modes[1:] else ""
    raise BadOption(
        f'{name} does nothing with write={mode}; add .option("write", "{modes[0]}"){others} or leave {name} out'
    )


def _listed(modes: tuple[str, ...]) -> str:
    return ", ".join(f"write={mode}" for mode in modes)


def _check_stranger(name: str, mode: str) -> None:
    if mode != "claim" and name.replace("_", "") in _KEYS:
        raise BadOption(
            "a key in an option would stand in plans, logs and event files, so none is taken there: write it to a file "
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
        raise BadOption(f"there is no option {name} {here}: leave it out; there are {ours}")


def url_of(raw: Mapping[str, str]) -> str:
    """The gateway's address. Raises BadOption for what is none, and where the credentials do not go with it."""
    url = raw.get("url", "")
    GatewayAddress.of(url, credentials_of(raw))
    return url


def credentials_of(raw: Mapping[str, str]) -> Credentials:
    """The files of a key and of certificates. Raises BadOption where they contradict each other."""
    names = ("apiKeyFile", "ca", "certificate", "certificateKey")
    key, ca, certificate, own = (BY_NAME[name].text(raw) for name in names)
    return Credentials(api_key_file=key, ca=ca, certificate=certificate, certificate_key=own)


def topic_of(raw: Mapping[str, str]) -> str:
    """The topic, by its option or as the path; empty where neither is given. Raises BadOption where they differ."""
    topic, path = raw.get("topic"), raw.get("path")
    if topic is not None and path is not None and topic != path:
        raise BadOption(f"option topic says {topic!r} and the path says {path!r}; give one of them")
    return topic or path or ""


def on_down_of(raw: Mapping[str, str]) -> str:
    """What tasks do while the gateway is down. Raises BadOption for spill, with the reason."""
    if raw.get("ondown", "").lower() == SPILL:
        raise BadOption(
            "onDown=spill would tell Spark that rows are done which lie on one executor's disk, and Spark would forget "
            'their input: its source holds them already. Write .option("onDown", "block"), and the batch comes again'
        )
    return BY_NAME["onDown"].choice(raw)
