"""Two gateways over one ledger, of any kind, when the owner dies or is suspended."""

import signal
import time
from collections.abc import Callable

from tests.support.gateway_process import GatewayProcess
from tests.support.standing_by import ask, claim, written

# Returns a standby over that ledger, by the name of its folder.
Gateway = Callable[[str], GatewayProcess]


def take_over_from_a_killed_owner(gateway: Gateway, within_s: float | None = None) -> None:
    """Checks that a standby answers no request and takes over the complete state. `within_s`: deadline after the
    kill."""
    with gateway("owner") as owner:
        written(owner, "done")
        standby = gateway("standby").stand_by()
        try:
            status, problem = standby.ask("GET", "/healthz/ready")
            assert (status, "owns the ledgers" in problem["detail"]) == (503, True), problem
            assert standby.ask("GET", "/healthz/live")[0] == standby.ask("GET", "/healthz/startup")[0] == 200
            status, problem = ask(standby, "done", "new")
            assert (status, problem["code"], problem["action"]) == (503, "RECOVERING", "retry"), problem
            assert standby.ask("PUT", "/v1/namespaces/mail")[0] == 503
            assert owner.ask("PUT", "/v1/namespaces/mail")[0] == 201
            standby.wait_until("follows mail", lambda: standby.states() == {"default": "STANDBY", "mail": "STANDBY"})
            # The owner continues, and the standby learns of it.
            assert claim(owner, "open", "done")[1] == ["GRANTED", "DUPLICATE"]
            assert owner.is_ready()
            owner.kill()
            killed_s = time.monotonic()
            # Readiness requires one serving namespace.
            standby.wait_until("takes over", lambda: standby.states().get("default") == "SERVING")
            assert standby.is_ready()
            assert within_s is None or time.monotonic() < killed_s + within_s
            assert claim(standby, "open", "done", "new")[1] == ["BUSY", "DUPLICATE", "GRANTED"]
            standby.wait_until("serves both", lambda: standby.states() == {"default": "SERVING", "mail": "SERVING"})
            assert "took_over" in standby.log
            assert standby.stop() == 0
        finally:
            standby.__exit__()


def wake_after_a_successor(gateway: Gateway) -> None:
    """Checks that a suspended and superseded owner grants nothing when it wakes, stands by, and owns again after a
    handover."""
    with gateway("owner") as owner:
        written(owner, "done")
        standby = gateway("standby").stand_by()
        try:
            owner.signal(signal.SIGSTOP)
            standby.wait_until("takes over", standby.is_ready)
            written(standby, "by the successor")
            owner.signal(signal.SIGCONT)
            status, problem = ask(owner, "by the successor", "new")
            assert status in (409, 503), problem
            owner.wait_until("stands by", owner.stands_by)
            assert standby.is_ready()
            assert claim(standby, "done", "new")[1] == ["DUPLICATE", "GRANTED"]
            # An orderly stop hands over at once.
            assert standby.stop() == 0
            owner.wait_until("takes over again", owner.is_ready)
            assert claim(owner, "by the successor", "new")[1] == ["DUPLICATE", "BUSY"]
        finally:
            standby.__exit__()
