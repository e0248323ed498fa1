"""OpenTelemetry's own environment variables switch traces on, and unusable values are refused at the start."""

import subprocess
import sys

import pytest

from oncegate.core.errors import SettingsError
from oncegate.runtime.otel_variables import WantedTraces, wanted_traces
from tests.support.http_app import request, served
from tests.support.http_requests import packed
from tests.support.otlp_receiver import Receiver

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, None),
        ({"OTEL_SERVICE_NAME": "mine"}, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, None),
        (ENDPOINT, WantedTraces(("otlp",), "http/protobuf")),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318"}, WantedTraces(("otlp",), "http/protobuf")),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, WantedTraces(("otlp",), "http/protobuf")),
        ({"OTEL_TRACES_EXPORTER": "console, otlp"}, WantedTraces(("console", "otlp"), "http/protobuf")),
        (ENDPOINT | {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, WantedTraces(("otlp",), "grpc")),
        (
            ENDPOINT | {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"},
            WantedTraces(("otlp",), "http/protobuf"),
        ),
        (ENDPOINT | {"OTEL_TRACES_EXPORTER": "none"}, None),
        (ENDPOINT | {"OTEL_SDK_DISABLED": "TRUE"}, None),
        (ENDPOINT | {"OTEL_SDK_DISABLED": "false"}, WantedTraces(("otlp",), "http/protobuf")),
    ],
)
def test_traces_go_where_the_variables_point_and_nowhere_without_them(
    environ: dict[str, str], wanted: WantedTraces | None
) -> None:
    assert wanted_traces(environ) == wanted


@pytest.mark.parametrize(
    ("name", "value"), [("OTEL_TRACES_EXPORTER", "zipkin"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")]
)
async def test_an_unknown_value_is_refused_at_the_start_with_the_known_ones(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=f"{name}: {value} is not known; there are"):
        async with served():
            pass


async def test_without_the_extra_the_start_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch, receiver: Receiver
) -> None:
    monkeypatch.delitem(sys.modules, "oncegate.runtime.tracing", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(SettingsError, match=r"pip install 'oncegate\[otel\]'"):
        async with served():
            pass


def test_a_gateway_without_traces_imports_no_sdk() -> None:
    code = "import oncegate.app, sys; print([m for m in sys.modules if m.startswith('opentelemetry.sdk')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


async def test_a_sampler_of_the_variables_decides_of_requests_that_bring_no_trace(
    monkeypatch: pytest.MonkeyPatch, receiver: Receiver
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
    async with served() as http:
        assert (await http.send(packed(bytes(16)))).status == 200
        sampled = f"00-{'d' * 32}-00f067aa0ba902b7-01"
        assert (await http.send(request("GET", "/v1/limits", traceparent=sampled))).status == 200
    assert [span.name for span in receiver.spans] == ["GET /v1/limits"]


async def test_a_collector_that_refuses_is_a_line_in_the_log_and_no_request_fails(receiver: Receiver) -> None:
    receiver.status = 400
    async with served() as http:
        for n in range(3):
            assert (await http.send(packed(bytes(16), Oncegate_Token=f"{n:032x}"))).status == 200
    assert "traces_not_sent" in http.log.getvalue()
    assert http.log.getvalue().count("Failed to export") == 1, "once a minute, not once a batch"


async def test_a_collector_that_is_away_keeps_no_gateway_from_its_end(
    monkeypatch: pytest.MonkeyPatch, receiver: Receiver
) -> None:
    receiver.status = 503  # repeated, with growing delays
    async with served() as http:
        assert (await http.send(packed(bytes(16)))).status == 200
    assert "traces_not_sent" in http.log.getvalue()
