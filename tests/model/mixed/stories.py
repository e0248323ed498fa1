"""Sequences that rarely occur by chance, step by step. Each raises Broken under a table that gets it wrong."""

from dataclasses import replace

from oncegate.core.claims import Verb
from oncegate.engine.maintenance.scheduler import bucket_ms
from tests.model.kit.attempt import Request
from tests.model.kit.replies import ClaimReply
from tests.model.mixed.walks import SETUPS
from tests.model.mixed.world import HORIZON_MS, World

LEASE_MS = 1_000


class Story:
    """A world without chance, with every actor, driven request by request."""

    def __init__(self, horizon_ms: int = 0) -> None:
        self.world = World(replace(SETUPS["mixed"], actors=99, horizon_ms=horizon_ms), seed=1)
        self._claims: dict[str, bytes] = {}

    def ask(self, way: str, name: str, call: int, ids: tuple[int, ...]) -> str:
        """Makes a request, flushes it, and returns the answer in readable form."""
        token = self.world.actors[name].token
        said = self.world.handle(Request(name, token, None, call, ids, LEASE_MS, way=way))
        self.world.flush()
        reply = said.reply
        assert isinstance(reply, ClaimReply), reply
        if reply.claim is not None:
            self._claims[name] = reply.claim
        self.world._check()
        return str(reply)

    def settle(self, verb: Verb, name: str) -> None:
        self.world.handle(Request(name, self.world.actors[name].token, verb, claim=self._claims[name]))
        self.world.flush()
        self.world._check()

    def write(self, name: str, i: int) -> None:
        self.world._write(self.world.actors[name], i)
        self.world._check()

    def wait(self, duration_ms: int) -> None:
        self.world._pass(duration_ms)


def repeat_meets_a_released_id() -> str:
    """C holds 0, so P's produce gets BUSY for it. C releases 0, and a second copy of P's request, with its rows,
    arrives."""
    story = Story()
    story.ask("claim", "C", 1, (0,))
    story.ask("produce", "P", 1, (0, 1))
    story.settle(Verb.RELEASE, "C")
    return story.ask("produce", "P", 1, (0, 1))


def repeat_meets_an_expired_id() -> str:
    """The same, but C wrote 0 and died: its second copy in the topic is a takeover, and counted."""
    story = Story()
    story.ask("claim", "C", 1, (0,))
    story.write("C", 0)
    story.ask("produce", "P", 1, (0, 1))
    story.wait(LEASE_MS)
    return story.ask("produce", "P", 1, (0, 1))


def attempt_produces_what_it_claimed_and_wrote() -> str:
    """M wrote 0 under a claim that expired, and then produces it: two copies by one attempt, one takeover."""
    story = Story()
    story.ask("claim", "M", 1, (0,))
    story.write("M", 0)
    story.wait(LEASE_MS)
    return story.ask("produce", "M", 2, (0,))


def repeat_comes_after_the_horizon() -> str:
    """P's produce retires; a copy of it that arrives later is a new request. That limit of retries is documented."""
    story = Story(HORIZON_MS)
    story.ask("produce", "P", 1, (0,))
    for _ in range(2 * HORIZON_MS // bucket_ms(HORIZON_MS)):
        story.wait(bucket_ms(HORIZON_MS))
        story.world._upkeep()
        story.world.flush()
    return story.ask("produce", "P", 1, (0,))


STORIES = {
    "released": (repeat_meets_a_released_id, "0:GRANTED, 1:DUPLICATE+OWN"),
    "expired": (repeat_meets_an_expired_id, "0:GRANTED+TAKEOVER, 1:DUPLICATE+OWN"),
    "own expired": (attempt_produces_what_it_claimed_and_wrote, "0:GRANTED+TAKEOVER"),
    "retired": (repeat_comes_after_the_horizon, "0:GRANTED"),
}
