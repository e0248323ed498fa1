"""Sequences that rarely occur by chance, step by step. Each raises Broken under a table that gets it wrong."""

from dataclasses import replace

from oncegate.core.claims import Verb
from tests.model.claims.walks import SETUPS
from tests.model.claims.world import World
from tests.model.kit.attempt import Request
from tests.model.kit.replies import ClaimReply


class Story:
    """A world without chance, driven request by request."""

    def __init__(self) -> None:
        self.world = World(replace(SETUPS["default"], full=0.0), seed=1)
        self.claims: dict[tuple[str, int], bytes] = {}

    def claim(self, name: str, call: int, ids: tuple[int, ...]) -> None:
        attempt = self.world.attempts[name]
        reply = self.world.handle(Request(name, attempt.token, None, call, ids, 1_000))
        assert isinstance(reply, ClaimReply)
        if reply.claim is not None:
            self.claims[name, call] = reply.claim
        self.world._check()

    def settle(self, name: str, call: int, verb: Verb) -> None:
        self.world.handle(Request(name, self.world.attempts[name].token, verb, claim=self.claims[name, call]))
        self.world._check()

    def write(self, name: str, i: int) -> None:
        self.world._write(self.world.attempts[name], i)


def late_copy_meets_a_released_id() -> None:
    """C holds 0, so A is granted only 1. C releases 0, a second copy of A's claim arrives, and A completes.

    If the copy were granted 0, A's completion would mark it done although no row was written.
    """
    story = Story()
    story.claim("C", 1, (0,))
    story.claim("A", 1, (0, 1))
    story.settle("C", 1, Verb.RELEASE)
    story.write("A", 1)
    story.claim("A", 1, (0, 1))
    story.settle("A", 1, Verb.COMPLETE)
