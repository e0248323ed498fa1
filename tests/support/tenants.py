"""Two tenants with their own namespaces, and a key for each role of each."""

from pathlib import Path

from oncegate.transports.access import keys
from oncegate.transports.access.rights import Role

# The first tenant has `here`, which exists, and `nowhere`, which does not; the second has `theirs`.
FIRST, SECOND = ("here", "nowhere"), ("theirs",)
# The namespaces that exist.
THERE = ("here", "theirs")
# A key that was never issued.
STRANGER = "og_" + "0" * 12 + "_" + "0" * 64


def write_keys(path: Path) -> dict[str, str]:
    """Writes the file of all keys. Returns their texts by tenant and role; `all` has every namespace."""
    kept, texts = [], {}
    for tenant, namespaces in (("first", FIRST), ("second", SECOND), ("all", ("*",))):
        for role in Role:
            key, texts[f"{tenant} {role.value}"] = keys.made(f"{tenant}'s", [role], namespaces, 0)
            kept.append(key)
    keys.write(path, kept)
    return texts
