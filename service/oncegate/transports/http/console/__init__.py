"""The console's page: one HTML document, assembled from three files when this package is first imported.

It needs nothing from elsewhere, and its policy lets it: what runs and what paints is named by its hash, and only this
gateway may be asked.
"""

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files

HTML = "text/html; charset=utf-8"
_STYLE, _SCRIPT = ((files(__name__) / name).read_text("utf-8") for name in ("style.css", "console.js"))
_MARKUP = (files(__name__) / "page.html").read_text("utf-8")
PAGE = _MARKUP.replace("/* style */", _STYLE).replace("/* script */", _SCRIPT).encode()


def _hash_of(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


POLICY = (
    f"default-src 'none'; style-src {_hash_of(_STYLE)}; script-src {_hash_of(_SCRIPT)}; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
