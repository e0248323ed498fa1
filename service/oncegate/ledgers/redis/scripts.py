"""Holds the Lua scripts that run on the server, each a file in `lua`, whole or not at all: nothing comes between."""

import hashlib
from importlib.resources import files


class Script:
    """Holds one script and the name by which the server keeps it: the SHA-1 of its text."""

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
