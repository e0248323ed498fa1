"""Every method, called by every kind of caller: anonymous, a stranger, two tenants, each role alone."""

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc.status_pb2 import Status
from grpc_health.v1 import health_pb2

from oncegate.transports.access.rights import CALLS, Role
from oncegate.transports.grpc import gateway_pb2 as pb
from oncegate.transports.grpc.methods import STREAMS, paths
from oncegate.transports.grpc.streams import REQUESTS
from tests.support.grpc_app import Both, both, refusal_of
from tests.support.tenants import STRANGER, THERE, write_keys

ADMITTED = "admitted"
METHODS = dict(paths())
((STREAM,),) = ([f"/{service}/{name}" for name in names] for service, names in STREAMS.items())


@asynccontextmanager
async def tenants(folder: Path) -> AsyncIterator[tuple[Both, dict[str, str]]]:
    """A gateway that requires keys, with two tenants' namespaces, and a key for each role of each."""
    texts = write_keys(folder / "keys.json")
    async with both(keys=folder / "keys.json") as doors:
        for name in THERE:
            await doors.http.program.gateway.create(name)
        yield doors, texts
        log: io.StringIO = doors.http.log
        assert not [text for text in texts.values() if text.rpartition("_")[2] in log.getvalue()]


async def cell(doors: Both, path: str, namespace: str, *credentials: str) -> tuple[str, str]:
    """Returns UNAUTHENTICATED, PERMISSION_DENIED, or the error of an admitted call; no call has valid fields."""
    message = METHODS[path].message(namespace=namespace).SerializeToString()
    shown = tuple(("authorization", credential) for credential in credentials)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await doors.channel.unary_unary(path)(message, timeout=20, metadata=shown)
    found = refusal_of(caught.value)
    if found.code is grpc.StatusCode.UNAUTHENTICATED:
        assert found.members == ("UNAUTHENTICATED", "fix", "none", None)
    elif found.code is grpc.StatusCode.PERMISSION_DENIED:
        assert found.members == ("FORBIDDEN", "fix", "none", None)
    else:
        return ADMITTED, ""
    return found.code.name, str(caught.value.details())


def expected(path: str, who: str) -> str:
    if who in ("nobody", "stranger"):
        return "UNAUTHENTICATED"
    tenant, role = who.split()
    return ADMITTED if tenant != "second" and Role(role) in CALLS[METHODS[path].call].roles else "PERMISSION_DENIED"


async def test_each_method_answers_each_role_according_to_the_one_table(tmp_path: Path) -> None:
    cells: dict[tuple[str, str], str] = {}
    async with tenants(tmp_path) as (doors, texts):
        marks = [doors.http.program.gateway.namespace(name).mark for name in ("here", "theirs")]
        for path in METHODS:
            cells[path, "nobody"], _ = await cell(doors, path, "here")
            for who, credential in {"stranger": STRANGER, **texts}.items():
                cells[path, who], _ = await cell(doors, path, "here", f"Bearer {credential}")
        assert marks == [doors.http.program.gateway.namespace(name).mark for name in ("here", "theirs")]
    assert len(cells) == len(METHODS) * (2 + 3 * len(Role))
    assert {key: said for key, said in cells.items() if said != expected(*key)} == {}


async def test_the_state_of_a_namespace_is_reported_to_roles_in_it(tmp_path: Path) -> None:
    async with tenants(tmp_path) as (doors, texts):
        check = doors.channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            health_pb2.HealthCheckRequest.SerializeToString,
            health_pb2.HealthCheckResponse.FromString,
        )

        async def answer(namespace: str, credential: str) -> str:
            request = health_pb2.HealthCheckRequest(service=f"oncegate.v1.ClaimService/{namespace}")
            shown = (("authorization", f"Bearer {credential}"),) if credential else ()
            try:
                found = await check(request, timeout=20, metadata=shown)
            except grpc.aio.AioRpcError as error:
                return error.code().name
            return health_pb2.HealthCheckResponse.ServingStatus.Name(found.status)

        assert await answer("here", texts["first read"]) == "SERVING"
        for namespace in ("here", "nowhere"):
            assert await answer(namespace, "") == "UNAUTHENTICATED"
            assert await answer(namespace, texts["second read"]) == "PERMISSION_DENIED"
        assert await answer("nowhere", texts["all read"]) == "NOT_FOUND"


async def test_each_request_of_a_stream_needs_what_its_call_needs(tmp_path: Path) -> None:
    cells: dict[tuple[str, str], str] = {}
    async with tenants(tmp_path) as (doors, texts):
        for who, credential in {"nobody": "", "stranger": STRANGER, **texts}.items():
            stream = doors.channel.stream_stream(STREAM)(
                metadata=(("authorization", f"Bearer {credential}"),) if credential else (), timeout=20
            )
            for name, method in REQUESTS.items():
                request = pb.StreamClaimsRequest(**{name: method.message(namespace="here")})
                await stream.write(request.SerializeToString())
                answer = pb.StreamClaimsResponse.FromString(await stream.read())
                code = grpc_code(Status.FromString(answer.refusal))
                cells[name, who] = code if code in ("UNAUTHENTICATED", "PERMISSION_DENIED") else ADMITTED
            await stream.done_writing()
    unary = {name: path for path, method in METHODS.items() for name, one in REQUESTS.items() if one is method}
    assert {key: said for key, said in cells.items() if said != expected(unary[key[0]], key[1])} == {}


def grpc_code(status: Status) -> str:
    return next(code.name for code in grpc.StatusCode if code.value[0] == status.code)


def test_every_method_of_the_proto_is_in_the_table() -> None:
    """A served method without a row would be open to all."""
    found = {f"/{s.full_name}/{m.name}" for s in pb.DESCRIPTOR.services_by_name.values() for m in s.methods}
    assert {*METHODS, STREAM} == found
    assert set(REQUESTS) == {field.name for field in pb.StreamClaimsRequest.DESCRIPTOR.fields}


def test_acks_need_the_role_of_drivers_forgetting_that_of_admins_and_all_else_that_of_writers() -> None:
    """The expectation is written by hand, because a mistake in the table would otherwise agree with itself."""
    needs = {path.rpartition("/")[2]: CALLS[method.call].roles for path, method in METHODS.items()}
    roles = {"RegisterDriver": Role.ACK, "Ack": Role.ACK, "ForgetIdSet": Role.ADMIN}
    assert needs == {name: {roles.get(name, Role.WRITE)} for name in needs}


async def test_another_tenants_namespace_and_one_that_is_nowhere_are_refused_in_the_same_words(tmp_path: Path) -> None:
    async with tenants(tmp_path) as (doors, texts):
        for path, method in METHODS.items():
            (role,) = CALLS[method.call].roles
            shown = f"Bearer {texts[f'second {role.value}']}"
            told = [await cell(doors, path, namespace, shown) for namespace in ("here", "nowhere")]
            assert {code for code, _ in told} == {"PERMISSION_DENIED"}
            assert told[0][1].replace("here", "it") == told[1][1].replace("nowhere", "it")


async def test_a_key_is_taken_as_a_bearer_alone_and_only_one(tmp_path: Path) -> None:
    async with tenants(tmp_path) as (doors, texts):
        text = texts["first write"]
        for shown in ((text,), (f"Basic {text}",), (f"Bearer{text}",), (f"Bearer {text}", f"Bearer {text}")):
            for path in METHODS:
                assert (await cell(doors, path, "here", *shown))[0] == "UNAUTHENTICATED"
        told: Any = await cell(doors, "/oncegate.v1.ClaimService/Claim", "here", f"bearer {text}")
        assert told[0] == ADMITTED


async def test_the_probe_is_open_to_all(tmp_path: Path) -> None:
    async with tenants(tmp_path) as (doors, _):
        assert await doors.accepts()
