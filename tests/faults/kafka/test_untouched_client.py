"""A ledger leaves aiokafka unmodified: other code in the gateway's process uses it too."""

import json
import subprocess
import sys

# In a process of its own, because the ledger is already imported here. It first imports the modules that only the
# ledger uses.
SCRIPT = """
import importlib, json, pkgutil, sys
import aiokafka

for one in pkgutil.walk_packages(aiokafka.__path__, "aiokafka."):
    importlib.import_module(one.name)

def attributes():
    modules = [module for name, module in sorted(sys.modules.items()) if name.split(".")[0] == "aiokafka"]
    classes = {value for module in modules for value in vars(module).values() if isinstance(value, type)}
    owned = [one for one in classes if one.__module__.split(".")[0] == "aiokafka"]
    return {
        f"{getattr(one, '__module__', '')}.{getattr(one, '__qualname__', one.__name__)}:{name}": id(value)
        for one in [*modules, *owned]
        for name, value in vars(one).items()
        if not name.startswith(("__", "_abc_"))
    }

before = attributes()
import oncegate.ledgers.kafka.ledgers
for one in pkgutil.walk_packages(oncegate.ledgers.kafka.__path__, "oncegate.ledgers.kafka."):
    importlib.import_module(one.name)
after = attributes()
print(json.dumps(sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))))
"""


def test_importing_the_ledger_changes_no_attribute_of_aiokafka() -> None:
    assert changed() == []


def changed() -> list[str]:
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=120)
    names: list[str] = json.loads(ran.stdout)
    return names
