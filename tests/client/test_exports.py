"""The names that a program may import from `oncegate_spark`."""

import inspect

import oncegate_spark
from oncegate_spark import errors


def test_every_error_that_a_caller_can_catch_is_exported() -> None:
    kinds = {name for name, one in inspect.getmembers(errors, inspect.isclass) if issubclass(one, Exception)}
    assert kinds | {"Outcome"} <= set(oncegate_spark.__all__)


def test_every_exported_name_exists() -> None:
    assert all(hasattr(oncegate_spark, name) for name in oncegate_spark.__all__)
