"""Loads the Lua scripts, each a file in `lua`; the server runs each script atomically."""

import hashlib
from importlib.resources import files


class Script:
    """A Lua script, and its name in the server's script cache: the SHA-1 of its text."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.text = files("oncegate.ledgers.redis").joinpath("lua", f"{name}.lua").read_bytes()
        self.sha1 = hashlib.sha1(self.text, usedforsecurity=False).hexdigest()


OWN = Script("own")
APPEND = Script("append")
PIECE = Script("piece")
TRIM = Script("trim")
DROP = Script("drop")
READ = Script("read")
MAKE = Script("make")
CHANGE = Script("change")
BEGIN = Script("begin")
