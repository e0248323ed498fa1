"""A gateway that sends its spans to a receiver of OTLP."""

from collections.abc import Iterator

import pytest

from tests.support.gateway_process import GatewayProcess
from tests.support.otlp_receiver import Receiver, otlp_over_http


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with otlp_over_http() as made:
        yield made


@pytest.fixture(scope="module")
def traced_gateway(receiver: Receiver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in receiver.environ.items():
            patch.setenv(name, value)
        gateway = GatewayProcess(tmp_path_factory.mktemp("traced")).start()
    try:
        yield gateway
    finally:
        gateway.kill()
