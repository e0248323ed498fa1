"""The Dockerfile: its content, a linter's findings, and the image itself if buildah or Docker can build it."""

import importlib
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from oncegate.settings import load
from tests.support.images import Builder, builder
from tests.support.tree import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text()
STAGES = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)[1:]
# Compiles one loop under the image's variables, then poses as another host and prints whether it found the cached code.
TWO_HOSTS = """
import llvmlite.binding as llvm
llvm.get_host_cpu_name = lambda: {host!r}
from oncegate.runtime import kernel_cache
loop = kernel_cache.compiled(kernel_cache._probe)
loop()
print(dict(loop.stats.cache_hits), dict(loop.stats.cache_misses))
"""

# Starts a gateway twice on one data folder, claims the same id from both, and prints the time until each was ready.
# `host` is the processor that the program believes it has; the program's output is passed on.
SERVES = """
import json, socket, subprocess, sys, time, urllib.error, urllib.request as net
begin = "import llvmlite.binding as llvm, oncegate.__main__\\nllvm.get_host_cpu_name = lambda: {host!r}\\n"
run = [sys.executable, "-c", begin + "oncegate.__main__.main()"] if {host!r} else ["oncegate"]
with socket.socket() as found:
    found.bind(("127.0.0.1", 0))
    port = found.getsockname()[1]
def ask(path, body=None):
    asked = net.Request(f"http://127.0.0.1:{{port}}{{path}}", body, {{"Content-Type": "application/json"}})
    return json.load(net.urlopen(asked, timeout=20))
for start in range(2):
    began = time.monotonic()
    served = subprocess.Popen([*run, "serve", "--data", "/data/ledger", "--port", str(port)], stderr=subprocess.STDOUT)
    while True:
        try:
            ask("/healthz/ready")
            break
        except (urllib.error.URLError, ConnectionError):
            assert served.poll() is None
            time.sleep(0.01)
    took_s = time.monotonic() - began
    claim = {{"token": f"{{start:032x}}", "call": 0, "ids": ["order-1"]}}
    told = ask("/v1/namespaces/default/ids:claim", json.dumps(claim).encode())
    if start == 0:
        ask(f"/v1/namespaces/default/claims/{{told['claim']}}:complete", b"")
    served.terminate()
    assert served.wait(60) == 0
    print(told["verdicts"][0]["verdict"], round(took_s, 2), flush=True)
"""
LISTED = """
import importlib.metadata, json
listed = json.load(open("/opt/oncegate/sbom.cdx.json"))["components"]
print(sorted((one["name"], one["version"]) for one in listed))
print(sorted((one.name, one.version) for one in importlib.metadata.distributions()))
"""

# Starts the gateway with each of several settings files, on separate ports and folders. Prints `ready` for each, or the
# lines of its refusal. Creates the files for settings that verify tokens or present a certificate.
STARTS = """
import datetime as dt, json, pathlib, subprocess, sys, tempfile, time
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization as made
from cryptography.hazmat.primitives.asymmetric import ec
from base64 import urlsafe_b64encode as b64
folder, run, files = pathlib.Path(tempfile.mkdtemp(dir={room!r})), {run!r}, json.loads({files!r})
key = ec.generate_private_key(ec.SECP256R1())
name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "oncegate")])
now = dt.datetime.now(dt.timezone.utc)
until = now + dt.timedelta(days=1)
built = x509.CertificateBuilder(name, name, key.public_key(), 1, now, until).sign(key, hashes.SHA256())
pem = made.Encoding.PEM
(folder / "tls.pem").write_bytes(built.public_bytes(pem))
(folder / "tls.key").write_bytes(key.private_bytes(pem, made.PrivateFormat.PKCS8, made.NoEncryption()))
numbers = key.public_key().public_numbers()
x, y = (b64(one.to_bytes(32, "big")).rstrip(b"=").decode() for one in (numbers.x, numbers.y))
(folder / "jwks.json").write_text(json.dumps({{"keys": [{{"kty": "EC", "crv": "P-256", "kid": "1", "x": x, "y": y}}]}}))
for name, text in files.items():
    own = folder / name
    own.mkdir()
    (own / "oncegate.toml").write_text(text.replace("FOLDER", str(folder)))
    flags = ["--config", own / "oncegate.toml", "--data", own / "data", "--host", "127.0.0.1", "--port", "0"]
    with (own / "log").open("w") as log:
        served = subprocess.Popen([*run, "serve", *flags, "--port-file", own / "port"], stdout=log, stderr=log)
    while served.poll() is None and not (own / "port").exists():
        time.sleep(0.01)
    is_ready = served.poll() is None
    served.terminate()
    status = served.wait(60)
    said = "ready" if is_ready and status == 0 else (own / "log").read_text()
    print(json.dumps([name, said]), flush=True)
"""


def test_files_imported_by_the_dockerfile_exist() -> None:
    matches = re.findall(r"from (oncegate[\w.]*) import (\w+)", DOCKERFILE)
    assert matches, "the image compiles the kernels while it is built"
    for module, name in matches:
        assert callable(getattr(importlib.import_module(module), name))


def test_hadolint_finds_nothing_to_remark() -> None:
    command = [Path(sys.executable).with_name("hadolint"), "--failure-threshold", "style", ROOT / "Dockerfile"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_last_stage_installs_nothing_and_runs_without_rights() -> None:
    first, last = STAGES
    assert "pip install" in first
    assert not re.search(r"\b(apt-get|pip|gcc|build-essential)\b", last)
    assert re.findall(r"^USER (.*)$", last, re.MULTILINE) == ["65532:65532"]
    assert last.index("\nUSER ") < last.index("compile_kernels"), "the user of the process may write only compiled code"


def test_the_image_holds_what_every_ledger_needs_in_the_versions_that_are_tested() -> None:
    assert "requirements/image.txt" in STAGES[0]
    pins = {name: pinned(name) for name in ("image", "dev")}
    assert {"aiokafka", "redis", "grpcio", "numba"} <= pins["image"].keys()
    assert pins["image"].items() <= pins["dev"].items()


def test_the_image_holds_every_extra_and_every_extra_that_the_gateway_asks_for_is_one() -> None:
    """A user cannot install packages in a container; the error that asks for a package names one of these extras."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    pins = pinned("image")
    missing = {
        (extra, package)
        for extra, packages in extras.items()
        for package in (canonical(re.split(r"[\[<>=~!]", one)[0]) for one in packages)
        if package not in pins
    }
    assert missing == set()
    sources = (path.read_text() for path in (ROOT / "service/oncegate").rglob("*.py"))
    asked = {
        name for text in sources for names in re.findall(r"oncegate\[([\w,]+)\]", text) for name in names.split(",")
    }
    assert asked <= extras.keys()
    assert {"jwt", "pybloom", "formats"} <= asked


def canonical(package: str) -> str:
    """Returns a package's name in the form of the pins (PEP 503)."""
    return re.sub(r"[-_.]+", "-", package).lower()


# Files that some settings name, and settings that only work together.
JWT = {"jwt_issuer": "https://issuer.example", "jwt_audience": "oncegate", "jwt_keys": "FOLDER/jwks.json"}
TLS = {"tls_certificate": "FOLDER/tls.pem", "tls_key": "FOLDER/tls.key", "tls_client_ca": "FOLDER/tls.pem"}
SAMPLES = {**JWT, **TLS, "duplicates_topic": "duplicates", "jwt_tenant_claim": "tenant", "cold_filter": "pybloom"}
# Settings that are refused alone, or without a ledger on Kafka.
REFUSED = {"duplicates_topic", *JWT, *TLS}


def configurations() -> dict[str, str]:
    """Returns a settings file as the chart renders it for each setting that it offers, and for those that belong
    together."""
    offered = json.loads((ROOT / "helm/oncegate/values.schema.json").read_text())["properties"]["settings"][
        "properties"
    ]
    maps = [one for one in yaml.safe_load_all((ROOT / "tests/golden/chart/embedded.yaml").read_text()) if one]
    (rendered,) = [one["data"]["oncegate.toml"] for one in maps if "oncegate.toml" in one.get("data", {})]
    # Flags set these.
    given = re.sub(r"^(?:ledger|host|port|keys) = .*\n", "", rendered, flags=re.MULTILINE)
    defaults = load()
    found = {}
    for name in offered:
        value = (
            SAMPLES[name] if name in SAMPLES else getattr(defaults.limits, name, getattr(defaults.process, name, None))
        )
        assert value is not None, f"{name} has no default: give it a sample"
        found[name] = f"{given}{name} = {json.dumps(value)}\n"
    for name, several in (("jwt", JWT), ("tls", TLS)):
        found[name] = given + "".join(f"{key} = {json.dumps(value)}\n" for key, value in several.items())
    return found


def check_starts(said: str, wanted: set[str]) -> None:
    """Checks that each configuration is ready, or is refused in one line that asks for no package."""
    starts = dict(json.loads(line) for line in said.splitlines())
    assert starts.keys() == wanted
    refused = {name: told for name, told in starts.items() if told != "ready"}
    assert refused.keys() <= REFUSED, refused
    for name, told in refused.items():
        lines = told.strip().splitlines()
        assert lines[-1].startswith("oncegate: "), (name, told)
        assert sum(line.startswith("oncegate: ") for line in lines) == 1, (name, told)
        assert not re.search("Traceback|pip install", told), (name, told)


@pytest.mark.server
def test_settings_that_ask_for_an_extra_start_or_are_refused_in_one_line(tmp_path: Path) -> None:
    """Tries the settings that work with the installed packages; the image's test tries all of them."""
    files = {name: text for name, text in configurations().items() if name in ("jwt", "jwt_issuer", "cold_filter")}
    lines = STARTS.format(room=str(tmp_path), run=[sys.executable, "-m", "oncegate"], files=json.dumps(files))
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    check_starts(done.stdout, set(files))


def pinned(name: str) -> dict[str, str]:
    """Returns versions by package; all of them if they differ by Python version."""
    text = (ROOT / f"requirements/{name}.txt").read_text()
    found: dict[str, str] = {}
    for package, version in re.findall(r"^([a-z0-9._-]+)(?:\[[\w,]+\])?==(\S+)", text, re.MULTILINE):
        found[package] = f"{found.get(package, '')} {version}"
    return found


def variables() -> dict[str, str]:
    return dict(re.findall(r"\b(NUMBA_\w+)=(\S+)", STAGES[1]))


def test_another_processor_finds_what_was_compiled(tmp_path: Path) -> None:
    """Uses the image's variables; without them each processor would compile its own code."""

    def tried(host: str, **given: str) -> str:
        environment = {"PATH": "/usr/bin", "PYTHONPATH": str(ROOT / "service"), "NUMBA_CACHE_DIR": str(tmp_path)}
        command = [sys.executable, "-c", TWO_HOSTS.format(host=host)]
        done = subprocess.run(command, env=environment | given, capture_output=True, text=True, check=True)
        hits, misses = re.findall(r"\{.*?\}", done.stdout)
        return "found" if hits != "{}" and misses == "{}" else "compiled"

    generic = {name: value for name, value in variables().items() if name != "NUMBA_CACHE_DIR"}
    assert [tried("skylake", **generic), tried("znver3", **generic)] == ["compiled", "found"]
    assert [tried("skylake"), tried("znver3")] == ["compiled", "compiled"], "the test distinguishes both processors"


@pytest.fixture(scope="module")
def image() -> Iterator[Builder]:
    with builder() as built:
        yield built


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_the_image_is_built_and_runs_without_rights_on_a_root_that_is_read_only(image: Builder) -> None:
    assert image.run("--version").startswith("oncegate")
    who = image.python("import os; print(os.getuid(), os.getgid())")
    assert who == "65532 65532"
    for tool in ("gcc", "cc", "ld"):
        assert image.python(f"import shutil; print(shutil.which({tool!r}))") == "None"
    assert image.python("import shutil, sys; print(shutil.which('pip', path=sys.prefix + '/bin'))") == "None"


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("host", ["", "skylake", "znver3"])
def test_the_image_serves_on_any_processor_and_compiles_nothing_when_it_starts(image: Builder, host: str) -> None:
    output = image.python(SERVES.format(host=host))
    (first_s,) = re.findall(r"^GRANTED (.*)$", output, re.MULTILINE)
    (second_s,) = re.findall(r"^DUPLICATE (.*)$", output, re.MULTILINE)
    assert "compiling kernels" not in output
    sys.stdout.write(f"ready after {first_s} s, then {second_s} s\n")


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_the_image_lists_the_packages_that_are_in_it(image: Builder) -> None:
    listed, there = image.python(LISTED).splitlines()
    assert listed == there
    assert "'numba'" in there
    assert "'oncegate'" in there


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_times_of_sources_are_whole_seconds_which_layers_keep(image: Builder) -> None:
    output = image.python(
        "import pathlib, oncegate\n"
        "paths = pathlib.Path(oncegate.__file__).parents[1].rglob('*.py')\n"
        "print(max(path.stat().st_mtime_ns % 10**9 for path in paths))"
    )
    assert output == "0"


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_each_setting_that_the_chart_offers_starts_in_the_image_or_is_refused_in_one_line(image: Builder) -> None:
    files = configurations()
    check_starts(image.python(STARTS.format(room="/data", run=["oncegate"], files=json.dumps(files))), set(files))
