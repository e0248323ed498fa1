"""Lines of Spark code that make good what an error is about; errors outside of Spark do not have them."""

from oncegate_spark.errors import OncegateError
from oncegate_spark.protocol.ids import ID_TYPES


def cast_line(name: str) -> str:
    """Returns the line that makes an id of a column of another type, for the end of an error's text."""
    return f'ids are {ID_TYPES}; write df.withColumn("{name}", F.col("{name}").cast("string"))'


def text_line(name: str) -> str:
    """Returns the line that makes of a column one that payloads can be known by."""
    return (
        f"payloads are {ID_TYPES}; write "
        f'df.withColumn("{name}_text", F.col("{name}").cast("string")), or F.to_json of a struct, and name that'
    )


def filter_line(error: OncegateError) -> str:
    """Returns the filter that leaves out rows whose ids are null or empty, where the error is about these; else ""."""
    names, lacking = error.extra.get("columns"), error.extra.get("lacking")
    if not isinstance(names, list) or lacking is None:
        return ""
    if lacking == "null":
        return f': df.where(F.col("{names[0]}").isNotNull())'
    some = " | ".join(f'(F.length("{name}") > 0)' for name in names)
    return f": df.where({some})"
