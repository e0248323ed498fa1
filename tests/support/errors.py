from oncegate.core.errors import OncegateError, Rejected, Retryable, Stop


def all_errors() -> list[type[OncegateError]]:
    """Returns every leaf of the tree of errors, in the order of its drawing."""
    families: tuple[type[OncegateError], ...] = (Retryable, Rejected, Stop)
    return [leaf for family in families for leaf in family.__subclasses__()]
