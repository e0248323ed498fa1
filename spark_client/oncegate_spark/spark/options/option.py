"""What an option of format("oncegate") is: its name, what it takes, where it does something, and how it is parsed."""

from collections.abc import Mapping
from dataclasses import dataclass

from oncegate_spark.errors import BadOption

READ = "read"
WRITE, WRITE_STREAM, FOREACH_BATCH = "df.write", "df.writeStream", "foreachBatch"
READ_BATCH, READ_STREAM = "spark.read", "spark.readStream"
WRITES = (WRITE, WRITE_STREAM, FOREACH_BATCH)
READS = (READ_BATCH, READ_STREAM)


@dataclass(frozen=True)
class Option:
    """One option: its name, what it takes, and where it does something.

    name     as it is written; Spark may hand it over in any case
    modes    the write modes that it does something in, and READ for reading; elsewhere it is refused
    meaning  what it says, in one or two sentences for the documentation
    default  the text that stands for a missing option; None where a missing one says something of its own
    missing  what a missing one says, for the documentation, where `default` is None
    allowed  the texts it may be; empty for any text
    least, most, unit  where it is a whole number: its bounds, both included, and what it counts
    words    what it takes, for the documentation, where neither `allowed` nor a number says it
    only     the calls that take it, where not every one with such a mode does
    """

    name: str
    modes: tuple[str, ...]
    meaning: str
    default: str | None = None
    missing: str = "–"
    allowed: tuple[str, ...] = ()
    least: int = 0
    most: int = 0
    unit: str = ""
    words: str = "text"
    only: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The name in lower case, as options are looked up by."""
        return self.name.lower()

    @property
    def values(self) -> str:
        """What it takes, for the documentation."""
        if self.unit:
            return f"whole number of {self.unit}, {self.least} to {self.most}"
        return ", ".join(self.allowed) or self.words

    @property
    def calls(self) -> tuple[str, ...]:
        """The calls that take it: WRITES and READS, as its modes say, or fewer where `only` says so."""
        return self.only or (WRITES if self.modes != (READ,) else ()) + (READS if READ in self.modes else ())

    def text(self, raw: Mapping[str, str]) -> str | None:
        """What is given, else the default. `raw`: the options by their names in lower case."""
        return raw.get(self.key, self.default)

    def choice(self, raw: Mapping[str, str]) -> str:
        """One of `allowed`. Raises BadOption."""
        value = self.text(raw)
        if value not in self.allowed:
            raise BadOption(f"{self.name} is {value!r}; it is one of {', '.join(self.allowed)}")
        return value

    def truth(self, raw: Mapping[str, str]) -> bool:
        """True or false, in any case. Raises BadOption."""
        return self.choice({self.key: (self.text(raw) or "").lower()}) == "true"

    def names(self, raw: Mapping[str, str]) -> tuple[str, ...]:
        """Names, comma separated; empty ones are left out."""
        return tuple(name.strip() for name in (self.text(raw) or "").split(",") if name.strip())

    def number(self, raw: Mapping[str, str]) -> int | None:
        """A whole number within the bounds; None where there is none. Raises BadOption."""
        text = self.text(raw)
        if text is None:
            return None
        if not text.isascii() or not text.isdigit() or not self.least <= int(text) <= self.most:
            raise BadOption(
                f"{self.name} is {text!r}; it is a whole number of {self.unit}, {self.least} to {self.most}"
            )
        return int(text)
