"""Every error of the tree."""

from oncegate.core.errors import OncegateError, Rejected, Retryable, Stop


def all_errors() -> list[type[OncegateError]]:
    """Every leaf of the tree, in the order of the drawing."""
    families: tuple[type[OncegateError], ...] = (Retryable, Rejected, Stop)
    return [leaf for family in families for leaf in family.__subclasses__()]
