"""Receivers of OTLP for this process's spans, while a test runs."""

from collections.abc import Iterator

import pytest

from tests.support.otlp_receiver import Receiver, otlp_over_http


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with otlp_over_http() as made:
        for name, value in made.environ.items():
            monkeypatch.setenv(name, value)
        yield made
