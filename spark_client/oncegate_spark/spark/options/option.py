"""An option of `format("oncegate")`: its name, values, where it applies, and how it is parsed."""

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
    """One option: its name, its values, and where it applies.

    name     as the user writes it; Spark may pass it in any case
    modes    write modes to which it applies, and READ for reads; elsewhere it is rejected
    meaning  its effect, in one or two sentences for the documentation
    default  value of a missing option; None if a missing option has no fixed value
    missing  effect of a missing option, for the documentation, if `default` is None
    allowed  permitted values; empty for any text
    least, most, unit  for whole numbers: the inclusive bounds and the unit
    words    permitted values, for the documentation, if neither `allowed` nor a number defines them
    only     the calls that accept it, if not all calls with these modes do
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
        """The name in lower case, under which options are looked up."""
        return self.name.lower()

    @property
    def values(self) -> str:
        """Permitted values, for the documentation."""
        if self.unit:
            return f"whole number of {self.unit}, {self.least} to {self.most}"
        return ", ".join(self.allowed) or self.words

    @property
    def calls(self) -> tuple[str, ...]:
        """Calls that accept the option: `only`, else WRITES and READS according to its modes."""
        return self.only or (WRITES if self.modes != (READ,) else ()) + (READS if READ in self.modes else ())

    def text(self, raw: Mapping[str, str]) -> str | None:
        """Returns the given value, else the default. `raw`: options with lower-case names."""
        return raw.get(self.key, self.default)

    def choice(self, raw: Mapping[str, str]) -> str:
        """Returns one of `allowed`. Raises BadOption."""
        value = self.text(raw)
        if value not in self.allowed:
            raise BadOption(f"{self.name} is {value!r}; it must be one of {', '.join(self.allowed)}")
        return value

    def truth(self, raw: Mapping[str, str]) -> bool:
        """Parses true or false in any case. Raises BadOption."""
        return self.choice({self.key: (self.text(raw) or "").lower()}) == "true"

    def names(self, raw: Mapping[str, str]) -> tuple[str, ...]:
        """Parses comma-separated names; empty ones are left out."""
        return tuple(name.strip() for name in (self.text(raw) or "").split(",") if name.strip())

    def number(self, raw: Mapping[str, str]) -> int | None:
        """Parses an integer within the bounds; None without a value. Raises BadOption."""
        text = self.text(raw)
        if text is None:
            return None
        if not text.isascii() or not text.isdigit() or not self.least <= int(text) <= self.most:
            raise BadOption(
                f"{self.name} is {text!r}; it must be a whole number of {self.unit}, {self.least} to {self.most}"
            )
        return int(text)
