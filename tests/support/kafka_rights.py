"""Grants and revokes rights, passwords and quotas on a test broker; each call returns once the broker applies it."""

import struct
from collections.abc import Callable

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from deploy.kafka.access import CLIENT
from deploy.kafka.probe import asked, connected
from tests.support.kafka_broker import WAIT_S, Broker

TOPIC, TRANSACTIONAL_ID, CLUSTER = ResourceType.TOPIC, ResourceType.TRANSACTIONAL_ID, ResourceType.BROKER
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
DESCRIBE_CONFIGS, DELETE = AclOperation.DESCRIBE_CONFIGS, AclOperation.DELETE
_ALTER_CLIENT_QUOTAS = (49, 0)
# Number of queries until a broker must know of a change; each is a round trip.
_ASKED_AT_MOST = 10_000


class Rights:
    """The rights of users on one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def allow(self, kind: ResourceType, name: str, *operations: AclOperation, user: str = CLIENT) -> None:
        """Grants rights on a resource."""
        rule = _rule(kind, name, user)
        bindings = [AclBinding(*rule, operation, AclPermissionType.ALLOW) for operation in operations]
        for done in self._broker.admin.create_acls(bindings).values():
            done.result(WAIT_S)
        self._await(lambda: len(self._held(kind, name, user)) >= len(operations))

    def allow_below(self, kind: ResourceType, begin: str, *operations: AclOperation, user: str = CLIENT) -> None:
        """Grants rights on all resources whose names begin with `begin`."""
        rule = kind, begin, ResourcePatternType.PREFIXED, f"User:{user}", "*"
        bindings = [AclBinding(*rule, operation, AclPermissionType.ALLOW) for operation in operations]
        for done in self._broker.admin.create_acls(bindings).values():
            done.result(WAIT_S)
        held = AclBindingFilter(*rule, AclOperation.ANY, AclPermissionType.ANY)
        self._await(lambda: len(self._broker.admin.describe_acls(held).result(WAIT_S)) >= len(operations))

    def take(self, kind: ResourceType, name: str, user: str = CLIENT) -> None:
        """Revokes all rights on a resource."""
        rule = AclBindingFilter(*_rule(kind, name, user), AclOperation.ANY, AclPermissionType.ANY)
        self._broker.admin.delete_acls([rule])[rule].result(WAIT_S)
        self._await(lambda: not self._held(kind, name, user))

    def take_below(self, kind: ResourceType, begin: str, user: str = CLIENT) -> None:
        """Revokes all rights on resources whose names begin with `begin`."""
        rule = kind, begin, ResourcePatternType.PREFIXED, f"User:{user}", "*"
        held = AclBindingFilter(*rule, AclOperation.ANY, AclPermissionType.ANY)
        self._broker.admin.delete_acls([held])[held].result(WAIT_S)
        self._await(lambda: not self._broker.admin.describe_acls(held).result(WAIT_S))

    def let_in(self, user: str, password: str) -> None:
        """Creates a user, or changes its password."""
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        self._alter(UserScramCredentialUpsertion(user, info, password.encode()))

    def keep_out(self, user: str) -> None:
        """Removes a user. Its open connections stay."""
        self._alter(UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_512))

    def quota(self, client_id: str, bytes_per_s: float | None) -> None:
        """Limits the write rate of clients with this id; None removes the limit."""
        entity = struct.pack(">i", 1) + _text("client-id") + _text(client_id)
        value = struct.pack(">d?", bytes_per_s or 0, bytes_per_s is None)
        change = struct.pack(">i", 1) + _text("producer_byte_rate") + value
        cluster = self._broker.cluster
        with connected(cluster.ports[0].clients, cluster.access, cluster.files) as stream:
            answer = asked(stream, _ALTER_CLIENT_QUOTAS, struct.pack(">i", 1) + entity + change + b"\0")
        _, entries, error = struct.unpack_from(">iih", answer)
        assert (entries, error) == (1, 0), answer

    def _held(self, kind: ResourceType, name: str, user: str) -> list[AclBinding]:
        rule = AclBindingFilter(*_rule(kind, name, user), AclOperation.ANY, AclPermissionType.ANY)
        return list(self._broker.admin.describe_acls(rule).result(WAIT_S))

    def _alter(self, change: UserScramCredentialAlteration) -> None:
        (done,) = self._broker.admin.alter_user_scram_credentials([change]).values()
        done.result(WAIT_S)

    def _await(self, known: Callable[[], bool]) -> None:
        assert any(known() for _ in range(_ASKED_AT_MOST)), "the broker does not know of the change"


def _rule(kind: ResourceType, name: str, user: str) -> tuple[ResourceType, str, ResourcePatternType, str, str]:
    return kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*"


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()
