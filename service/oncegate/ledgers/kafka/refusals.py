"""Maps refusals by Kafka's brokers (rights, certificates, passwords) to instructions for an operator."""

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    IllegalSaslStateError,
    InvalidTransactionTimeout,
    KafkaError,
    SaslAuthenticationFailed,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
    UnsupportedSaslMechanismError,
)
from aiokafka.structs import TopicPartition

# Rights on topics by what a client does: writes, reads, describes settings, truncates.
WRITING, READING, LOOKING, SHORTENING = "DESCRIBE and WRITE", "DESCRIBE and READ", "DESCRIBE_CONFIGS", "DELETE"
# OpenSSL's X509_V_ERR codes.
_EXPIRED, _OTHER_HOST, _OTHER_ADDRESS = 10, 62, 64


@dataclass(frozen=True, slots=True)
class Refusal:
    """A resource that the brokers refused to this client. `mend`: instructions for the operator;
    `topics`: the refused topics.
    """

    resource: str
    mend: str
    topics: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.resource}: {self.mend}"


class BrokersRefuse(KafkaError):  # type: ignore[misc]
    """The brokers refuse this client; the text names the resource and a remedy. Nothing was written or changed."""

    def __str__(self) -> str:
        return str(self.args[0])

    __repr__ = __str__


class NoAnswer(SaslAuthenticationFailed):  # type: ignore[misc]
    """The SASL answer is malformed or does not prove knowledge of the password: the peer may not be a broker."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The client as the brokers identify it. `needs`: the rights on topics that it uses."""

    user: str | None = None
    mechanism: str | None = None
    client_id: str | None = None
    needs: str = WRITING

    @classmethod
    def of(cls, settings: Mapping[str, Any], needs: str = WRITING) -> "Caller":
        user, mechanism, client_id = map(settings.get, ("sasl_plain_username", "sasl_mechanism", "client_id"))
        return cls(user, mechanism, client_id, needs)

    def __str__(self) -> str:
        return f"User:{self.user}" if self.user else "this client's principal"


def refusal_of(error: BaseException | None, caller: Caller) -> Refusal | None:
    """Returns the refusal that an error or one of its causes reports; returns None for any other error."""
    while error is not None:
        for kind, told in _TOLD.items():
            if isinstance(error, kind):
                return told(error, caller)
        error = error.__cause__
    return None


def _topic(error: TopicAuthorizationFailedError, caller: Caller) -> Refusal:
    named = error.args[0] if error.args else ()
    # aiokafka's argument is a topic, several topics, or a partition.
    each = [named] if isinstance(named, str | TopicPartition) else named
    topics = frozenset(one.topic if isinstance(one, TopicPartition) else one for one in each)
    return Refusal(f"topic {', '.join(sorted(topics))}", f"allow {caller} to {caller.needs}", topics)


def _transactional_id(error: TransactionalIdAuthorizationFailed, caller: Caller) -> Refusal:
    return Refusal(_named("transactional id", error), f"allow {caller} to DESCRIBE and WRITE, by the prefix of its ids")


def _group(error: GroupAuthorizationFailedError, caller: Caller) -> Refusal:
    return Refusal(_named("group", error), f"allow {caller} to READ")


def _cluster(_: ClusterAuthorizationFailedError, caller: Caller) -> Refusal:
    return Refusal("cluster", f"allow {caller} what it asked for, as CREATE is for topics")


def _no_answer(error: NoAnswer, caller: Caller) -> Refusal:
    why = f"what came back is no answer of {caller.mechanism} ({error.args[0]})"
    return Refusal(f"user {caller.user}", f"{why}: check that the address and port are the brokers' own")


def _user(_: SaslAuthenticationFailed, caller: Caller) -> Refusal:
    mend = "check sasl_username, sasl_mechanism and the file of sasl_password_file"
    return Refusal(f"user {caller.user}", f"this name and password are none of {caller.mechanism}: {mend}")


def _mechanism(_: UnsupportedSaslMechanismError, caller: Caller) -> Refusal:
    return Refusal(f"sasl_mechanism {caller.mechanism}", "the brokers do not offer it: take another one")


def _no_sasl(_: IllegalSaslStateError, caller: Caller) -> Refusal:
    return Refusal(f"user {caller.user}", "the port asks for none: check security_protocol and the port")


def _certificate(error: ssl.SSLCertVerificationError, _: Caller) -> Refusal:
    if error.verify_code in (_OTHER_HOST, _OTHER_ADDRESS):
        mend = "name brokers as their certificates do, or give these all their names"
    elif error.verify_code == _EXPIRED:
        mend = "renew it"
    else:
        mend = "check ssl_cafile, which has to hold the authority that signed it"
    return Refusal("a broker's certificate", f"not trusted ({error.verify_message}): {mend}")


def _tls(error: ssl.SSLError, _: Caller) -> Refusal:
    reason = error.reason or str(error)
    if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
        mend = "a broker wants a certificate that it trusts: check ssl_certfile and ssl_keyfile"
    else:
        mend = "the port speaks no TLS, or another one: check security_protocol and the port"
    return Refusal(f"TLS ({reason})", mend)


def _too_long(_: InvalidTransactionTimeout, __: Caller) -> Refusal:
    mend = "longer than the brokers let one take: lower transaction_ms, or raise their transaction.max.timeout.ms"
    return Refusal("transactions", mend)


def _named(kind: str, error: BaseException) -> str:
    return f"{kind} {error.args[0]}" if error.args else kind


# The first matching type is used.
_TOLD: dict[type[BaseException], Callable[[Any, Caller], Refusal]] = {
    TopicAuthorizationFailedError: _topic,
    TransactionalIdAuthorizationFailed: _transactional_id,
    GroupAuthorizationFailedError: _group,
    ClusterAuthorizationFailedError: _cluster,
    NoAnswer: _no_answer,
    SaslAuthenticationFailed: _user,
    UnsupportedSaslMechanismError: _mechanism,
    IllegalSaslStateError: _no_sasl,
    InvalidTransactionTimeout: _too_long,
    ssl.SSLCertVerificationError: _certificate,
    ssl.SSLError: _tls,
}
