"""An issuer of tokens: its keys, its signatures, and a server on 127.0.0.1 that publishes the public keys."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

URL, AUDIENCE = "https://issuer.example", "oncegate"


class Issuer:
    """Signs with its newest key; `published` lists its public keys."""

    def __init__(self, now_s: int) -> None:
        self.now_s = now_s
        self.keys: list[Any] = []
        self.published: list[Any] = []
        self.rotate()

    def rotate(self, kind: str = "EC") -> None:
        """Adds a key, published beside the older ones."""
        parameters: Any = {"kid": f"key-{len(self.keys)}", "use": "sig"}
        made = ECKey.generate_key("P-256", parameters) if kind == "EC" else RSAKey.generate_key(2048, parameters)
        self.keys.append(made)
        self.published.append(made)

    @property
    def document(self) -> bytes:
        return json.dumps({"keys": [key.as_dict(private=False) for key in self.published]}).encode()

    def claims(self, **more: Any) -> dict[str, Any]:
        """Returns the claims of a valid token for one role in one namespace; None omits a claim."""
        own = {"iss": URL, "aud": AUDIENCE, "sub": "loader", "iat": self.now_s, "exp": self.now_s + 600}
        given = own | {"oncegate_roles": ["write"], "oncegate_namespaces": ["mail"]} | more
        return {name: value for name, value in given.items() if value is not None}

    def token(self, key: Any = None, header: dict[str, Any] | None = None, **more: Any) -> str:
        signing = key or self.keys[-1]
        algorithm = "ES256" if signing.key_type == "EC" else "RS256"
        named = {"alg": algorithm, "kid": signing.kid} | (header or {})
        return jwt.encode(named, self.claims(**more), signing, algorithms=[named["alg"]])


class Published:
    """A server that publishes an issuer's keys. `asked` counts requests; other attributes change its answers."""

    def __init__(self, issuer: Issuer) -> None:
        self.issuer, self.asked, self.status = issuer, 0, 200
        self.headers: dict[str, str] = {}
        # The URL of the keys, the name of the issuer there, and its configuration if it differs from the default.
        self.url = self.name = ""
        self.configuration: bytes | None = None
        self.paths: list[str] = []
        # True if the keys have moved to /moved.
        self.moved = False


@contextmanager
def publishing(issuer: Issuer) -> Iterator[Published]:
    shown = Published(issuer)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            shown.asked += 1
            shown.paths.append(self.path)
            is_configuration = self.path == "/realm/.well-known/openid-configuration"
            body = _configuration(shown) if is_configuration else shown.issuer.document
            is_gone = self.path == "/keys" and shown.moved
            self.send_response(404 if is_gone else shown.status)
            for name, value in shown.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        shown.url = f"http://127.0.0.1:{server.server_address[1]}/keys"
        shown.name = f"http://127.0.0.1:{server.server_address[1]}/realm"
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        try:
            yield shown
        finally:
            server.shutdown()
            serving.join()


def _configuration(shown: Published) -> bytes:
    if shown.configuration is not None:
        return shown.configuration
    return json.dumps(
        {"issuer": shown.name, "jwks_uri": shown.url.replace("/keys", "/moved") if shown.moved else shown.url}
    ).encode()
