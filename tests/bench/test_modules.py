"""Every module of the bench can be imported: most are started by hand, so no other test finds a missing name."""

import importlib
import pkgutil

import pytest

import bench


@pytest.mark.parametrize("name", [module.name for module in pkgutil.walk_packages(bench.__path__, "bench.")])
def test_a_module_finds_what_it_imports(name: str) -> None:
    importlib.import_module(name)
