"""Verifies an issuer's tokens (JWT, RFC 7519) with its public keys, and reads the caller's roles from their claims.

joserfc does the cryptography. It accepts only the algorithms it is given, each with its own type of key, so that a
public key cannot be used as the secret of HS256. It is typed and depends only on `cryptography`, which is installed
anyway.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from joserfc import jws, jwt
from joserfc.errors import ExpiredTokenError, InvalidClaimError, JoseError, MissingClaimError
from joserfc.jws import JWSRegistry

from oncegate.core.errors import Unauthenticated
from oncegate.ports import Clock
from oncegate.transports.access.issuer_keys import IssuerKeys
from oncegate.transports.access.principal import Principal
from oncegate.transports.access.rights import Role

# Only signatures by a private key. All others are refused: `none`, and HS256, whose verifier could sign.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519")
# The limit of many proxies for a header; claims with roles and namespaces are shorter.
TOKEN_BYTES_MAX = 8 << 10
NAMESPACES_MAX = 1_000
_ROLES = {role.value: role for role in Role}


@dataclass(frozen=True)
class TokenRules:
    """The rules for accepting tokens, and the names of the claims that carry rights. Dots in the name of a claim go
    into objects.

    `tenant_claim`: the claim with the tenant whose quotas apply; None: quotas apply to `sub`.
    """

    issuer: str
    audience: str
    algorithms: tuple[str, ...]
    roles_claim: str
    namespaces_claim: str
    leeway_ms: int
    tenant_claim: str | None = None


class BearerTokens:
    """Verifies the tokens of one issuer. `version` changes when earlier results may no longer be valid."""

    def __init__(self, rules: TokenRules, keys: IssuerKeys, clock: Clock) -> None:
        self._rules, self._keys, self._clock = rules, keys, clock
        self._registry = JWSRegistry(algorithms=rules.algorithms, strict_check_header=False)

    @property
    def version(self) -> int:
        """Counts the key sets read so far; starts the next read if it is due."""
        self._keys.look()
        return self._keys.version

    def check(self, token: str) -> Principal:
        """Returns the principal of a token. Raises Unauthenticated, KeysUnread."""
        if len(token) > TOKEN_BYTES_MAX:
            raise _refused(f"is longer than {TOKEN_BYTES_MAX >> 10} KiB")
        try:
            header = jws.extract_compact(token.encode("ascii"), registry=self._registry).headers()
            if not isinstance(header, dict) or not isinstance(header.get("alg"), str):
                raise _refused("names no algorithm")
            kid = header.get("kid")
            key = self._keys.find(kid if isinstance(kid, str) else None)
            if key is None:
                raise _refused("is signed with a key that its issuer does not publish")
            if key.get("alg", header.get("alg")) != header.get("alg"):
                raise _refused("is signed with another algorithm than its key is for")
            claims = jwt.decode(token, key, registry=self._registry).claims
            self._rules_kept(claims)
        except (JoseError, ValueError, TypeError, OverflowError, RecursionError) as error:
            raise _refused(_why(error)) from error
        return self._principal(claims)

    def _rules_kept(self, claims: dict[str, Any]) -> None:
        rules = self._rules
        jwt.JWTClaimsRegistry(
            now=self._clock.wall_ms() // 1_000,
            leeway=rules.leeway_ms // 1_000,
            iss={"essential": True, "value": rules.issuer},
            aud={"essential": True, "value": rules.audience},
            exp={"essential": True},
        ).validate(claims)

    def _principal(self, claims: dict[str, Any]) -> Principal:
        roles = frozenset(_ROLES[word] for word in _words(claims, self._rules.roles_claim) if word in _ROLES)
        namespaces = _words(claims, self._rules.namespaces_claim)
        if len(namespaces) > NAMESPACES_MAX:
            raise _refused(f"names more than {NAMESPACES_MAX} namespaces")
        until_ms = int(min(claims["exp"], 1 << 40)) * 1_000 + self._rules.leeway_ms
        return Principal(str(claims.get("sub", "")), roles, frozenset(namespaces), until_ms, self._tenant(claims))

    def _tenant(self, claims: dict[str, Any]) -> str:
        if self._rules.tenant_claim is None:
            return ""
        names = _words(claims, self._rules.tenant_claim)
        if len(names) != 1:
            raise _refused("names no tenant, or more than one, in its tenant claim")
        return names[0]


def _words(claims: Mapping[str, Any], name: str) -> list[str]:
    """Returns the values of a claim: a list of strings, or a string split at spaces (like `scope`); otherwise
    nothing.
    """
    found: Any = claims.get(name)
    if found is None:
        found = claims
        for part in name.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
    if isinstance(found, str):
        return found.split()
    return [word for word in found if isinstance(word, str)] if isinstance(found, list) else []


def _refused(why: str) -> Unauthenticated:
    return Unauthenticated(f"this token {why}; nothing was written")


def _why(error: Exception) -> str:
    """Returns the reason without any content of the token."""
    if isinstance(error, ExpiredTokenError):
        return "has expired"
    if isinstance(error, MissingClaimError):
        return "lacks a claim: iss, aud and exp are required"
    if isinstance(error, InvalidClaimError):
        return f"has a claim that is not accepted here: {error.claim}"
    return "cannot be verified: its form, algorithm or signature is wrong"
