"""Forgetting a whole dedup scope: confirmed by its name, once per token, over HTTP and gRPC."""

from pathlib import Path
from typing import Any

import grpc
import pytest

from oncegate.core.errors import OncegateError
from oncegate.testing.local import LocalGateway
from oncegate.transports.grpc import gateway_pb2 as pb
from oncegate_spark import Gateway
from tests.support.grpc_app import both, refusal_of
from tests.support.http_app import Http, open_http, token

NS = "/v1/namespaces/default"
SAID = {"who": "ada", "why": "its topic was made again, ticket 4711"}


async def produced(http: Http, *ids: str, topic: str = "orders", **more: Any) -> list[str]:
    message = {"token": token(), "call": 0, "id_col": ["id"], "records": [{"id": one} for one in ids], **more}
    reply = await http.post_json(f"{NS}/topics/{topic}/records:produce", message)
    return [one["verdict"] for one in reply.json["verdicts"]]


async def forget_all(http: Http, id_set: str, by: str, **more: str) -> Any:
    message = {"id_set": id_set, "confirm": id_set, "token": by, **SAID, **more}
    return await http.post_json(f"{NS}/ids:forget_all", message)


async def test_every_id_of_the_set_is_granted_again_and_no_other_set_s() -> None:
    async with open_http() as http:
        for topic in ("orders", "mails"):
            await produced(http, "a", "b", topic=topic)
        assert (await forget_all(http, "orders", token())).json == {"id_set": "orders", "times": 1}
        assert await produced(http, "a", "b") == ["GRANTED"] * 2
        assert await produced(http, "a", "b") == ["DUPLICATE"] * 2
        assert await produced(http, "a", topic="mails") == ["DUPLICATE"]
        (told,) = (await http.get(f"{NS}/audit")).json["actions"]
        assert (told["action"], told["subject"], told["who"], told["why"]) == (
            "forget --all", "ids of set 'orders'", "ada", SAID["why"],
        )  # fmt: skip


async def test_a_repeat_under_the_same_token_forgets_nothing_that_came_since() -> None:
    async with open_http() as http:
        by = token()
        await forget_all(http, "orders", by)
        await produced(http, "a")
        position = http.position
        assert (await forget_all(http, "orders", by)).json == {"id_set": "orders", "times": 1}
        assert http.position == position
        assert await produced(http, "a") == ["DUPLICATE"]
        assert (await forget_all(http, "orders", token())).json["times"] == 2
        assert await produced(http, "a") == ["GRANTED"]


@pytest.mark.parametrize(
    "wrong", [{"confirm": "order"}, {"confirm": ""}, {"confirm": "Orders"}, {"token": "ab"}, {"who": ""}, {"why": ""}]
)
async def test_a_wrong_confirmation_is_refused_and_all_is_known_as_before(wrong: dict[str, str]) -> None:
    async with open_http() as http:
        await produced(http, "a")
        position = http.position
        (await forget_all(http, "orders", token(), **wrong)).problem(400, "BAD_REQUEST")
        assert http.position == position
        assert (await http.get(f"{NS}/audit")).json["actions"] == []
        assert await produced(http, "a") == ["DUPLICATE"]


async def test_over_grpc_it_is_the_same_call() -> None:
    async with both() as doors:
        ask: Any = doors.channel.unary_unary(
            "/oncegate.v1.OperatorService/ForgetIdSet",
            request_serializer=pb.ForgetIdSetRequest.SerializeToString,
            response_deserializer=pb.ForgetIdSetResponse.FromString,
        )
        request = {"namespace": "default", "id_set": "orders", "token": bytes(16), **SAID}
        unconfirmed = {**request, "id_set": ""}
        for message in ({**request, "confirm": "order"}, unconfirmed):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await ask(pb.ForgetIdSetRequest(**message))
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert refusal_of(refused.value).members[0] == "BAD_REQUEST"
        for _ in range(2):
            answer = await ask(pb.ForgetIdSetRequest(confirm="orders", **request))
            assert (answer.id_set, answer.times) == ("orders", 1)


def test_it_is_forgotten_after_a_restart_and_its_later_ids_are_known(tmp_path: Path) -> None:
    with LocalGateway(str(tmp_path / "data")) as local, Gateway(local.url) as client:
        for granted in (["a"], [], ["a"], []):
            with client.attempt(id_set="s") as attempt:
                claimed = attempt.claim(["a"])
                assert list(claimed.granted) == granted
                if granted:
                    attempt.complete(claimed)
                else:
                    forget(local, "s")
            local.restart()


def forget(local: LocalGateway, id_set: str) -> None:
    from oncegate.cli.requests import RunningGateway

    message = {"id_set": id_set, "confirm": id_set, "token": token(), **SAID}
    try:
        RunningGateway(local.url).ask_about("/ids:forget_all", message)
    except OncegateError as error:
        raise AssertionError(error.detail) from error
