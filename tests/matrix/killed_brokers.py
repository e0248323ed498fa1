"""Strikes that kill brokers at a point of the gateway: one of three, which the others replace, or the only one."""

import signal

from tests.matrix.life import STEPS, Life
from tests.matrix.rows import Row, Strike
from tests.matrix.world import World, wait_until

THREE = 3


def broker_killed(point: str) -> Strike:
    """Stops the gateway at a point, kills a broker, and resumes the gateway; the other brokers of three continue.

    Each run kills the next broker: leader, coordinator or follower of the written partitions.
    """

    def strike(world: World, life: Life) -> bool:
        cluster, gateway = world.broker.cluster, world.gateway
        node = cluster.nodes[life.number // STEPS % len(cluster.nodes)]
        gateway.arm(point, signal.SIGSTOP, life.step)
        life.start()
        wait_until("the gateway is stopped", lambda: gateway.is_struck or not life.is_alive())
        struck = gateway.is_struck
        cluster.kill_node(node)
        if len(cluster.nodes) == 1:
            cluster.start_node(node)
        if struck:
            gateway.go_on()
        life.finish()
        if len(cluster.nodes) > 1:
            cluster.start_node(node)
        gateway.settle()
        return struck

    return strike


KILLED_BROKERS = (
    Row("broker-restart-sent", "K6 K8 F14", "the only broker is killed before EndTxn", broker_killed("all sent")),
    Row("broker-restart-end", "K6 K8 F16", "the only broker is killed behind EndTxn", broker_killed("committed")),
    *(
        Row(f"broker-of-three-{name}", of, f"a broker of three is killed {what}", broker_killed(point), brokers=THREE)
        for name, of, what, point in (
            ("begun", "X35 X36 F12", "when a transaction has begun", "begun"),
            ("sent", "K6 X35 X36 F14", "before EndTxn", "all sent"),
            ("end", "K6 X35 X36 F16", "behind EndTxn", "committed"),
        )
    ),
)
