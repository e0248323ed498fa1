"""Two tenants, each with namespaces of its own, and a key for each role of each."""

from pathlib import Path

from oncegate.transports.access import keys
from oncegate.transports.access.rights import Role

# Whose namespaces: `here` is there, `nowhere` is not, and both are the first tenant's; the second has `theirs`.
FIRST, SECOND = ("here", "nowhere"), ("theirs",)
# What is there of them.
THERE = ("here", "theirs")
# A key that nobody was given.
STRANGER = "og_" + "0" * 12 + "_" + "0" * 64


def write_keys(path: Path) -> dict[str, str]:
    """Writes the file of all keys; returns their texts by tenant and role, `all` being for every namespace."""
    kept, texts = [], {}
    for tenant, namespaces in (("first", FIRST), ("second", SECOND), ("all", ("*",))):
        for role in Role:
            key, texts[f"{tenant} {role.value}"] = keys.made(f"{tenant}'s", [role], namespaces, 0)
            kept.append(key)
    keys.write(path, kept)
    return texts
