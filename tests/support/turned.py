"""Lets tests marked `turned` run in a loop whose clock they turn: a `conftest.py` imports the hook."""

import asyncio
from collections.abc import Callable

import pytest

from oncegate.testing import TurnedLoop


def pytest_asyncio_loop_factories(item: pytest.Item) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"loop": TurnedLoop if item.get_closest_marker("turned") else asyncio.new_event_loop}
