"""`make setup` on simulated machines: stubs of apt, Java and Python answer as those of a system do.

A stub cannot prove a real apt's answers: `scripts/empty_root.sh` runs the script in an empty Debian.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.tree import ROOT

TOOLS = ("bash", "basename", "cat", "cp", "dirname", "env", "grep", "head", "mkdir", "mv", "readlink", "rm", "sed")
PIP = """#!/bin/sh
case "$*" in
    *--find-links*) [ -z "$OLD_WHEELS" ] ;;
    *--no-index*) ;;
    *) [ -z "$NO_NETWORK" ] ;;
esac
"""
# Imitates a suitable Python; the environment that it creates contains this pip and the stub itself.
PYTHON = """#!/bin/sh
case "$*" in
    "-m venv "*) mkdir -p "$3/bin" && cp "$PIP" "$3/bin/pip" && cp "$0" "$3/bin/python" ;;
    *ensurepip*) [ -z "$NO_VENV" ] ;;
    --version) echo "Python 3.13.5" ;;
esac
"""
# Imitates apt of Debian 13: version 21 can be installed; 17 is a name that other packages refer to, for which `show`
# succeeds.
APT = """#!/bin/sh
[ "$1" = show ] && exit 0
case "$2" in *-21-*) version=21.0.7 ;; *) version="(none)" ;; esac
printf '%s:\\n  Installed: (none)\\n  Candidate: %s\\n' "$2" "$version"
"""
SYSTEMS = {"13": "ID=debian\nVERSION_ID=13\n", "12": "ID=debian\nVERSION_ID=12\n", "sid": "ID=debian\n"}


class Machine:
    """A tree with the script in it, and a path with stubs and the usual commands."""

    def __init__(self, folder: Path) -> None:
        self.tree, self.bin = folder / "tree", folder / "bin"
        for path in (self.tree / "scripts", self.tree / "requirements", self.tree / "spark_client", self.bin):
            path.mkdir(parents=True)
        shutil.copy2(ROOT / "scripts/setup.sh", self.tree / "scripts")
        for name in ("requirements/dev.txt", "pyproject.toml", "spark_client/pyproject.toml"):
            (self.tree / name).write_text("")
        for tool in (*TOOLS, "sha256sum", "sh", "touch"):
            found = shutil.which(tool)
            assert found is not None, tool
            (self.bin / tool).symlink_to(found)
        (folder / "pip").write_text(PIP)
        (folder / "pip").chmod(0o755)
        self.environment = {"PATH": str(self.bin), "PIP": str(folder / "pip"), "JAVA_PLACES": ""}
        self.has("id", "#!/bin/sh\necho 1000\n")
        self.has("apt-get", "#!/bin/sh\n")
        self.has_room(2_000_000)
        self.is_debian("13")

    def has(self, name: str, text: str = "#!/bin/sh\n") -> Path:
        """Adds a command to the path."""
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)
        return self.bin / name

    def has_java(self, version: str) -> None:
        self.has("java", f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-16' >&2\n")

    def has_room(self, free_kb: int) -> None:
        self.has("df", f"#!/bin/sh\nprintf 'Filesystem\\n/dev/vda 8000000 1000 {free_kb} 9%% /\\n'\n")

    def is_debian(self, version: str) -> None:
        (self.tree / "os-release").write_text(SYSTEMS[version])
        self.environment["OS_RELEASE"] = str(self.tree / "os-release")

    def set_up(self, **environment: str) -> tuple[int, str]:
        """Runs the script; returns its exit status and its output."""
        done = subprocess.run(
            [self.tree / "scripts/setup.sh"],
            env=self.environment | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stderr


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def whole(machine: Machine) -> Machine:
    """Returns a machine with everything that the script needs."""
    for name in ("make", "git"):
        machine.has(name)
    machine.has("python3", PYTHON)
    machine.has_java("21.0.7")
    return machine


def test_all_that_is_missing_is_asked_for_at_once_with_one_command(machine: Machine) -> None:
    machine.has_room(900_000)
    machine.has("apt-cache", APT)
    machine.has("python3", PYTHON)
    status, output = machine.set_up(NO_VENV="1")
    assert status == 1
    assert "1.7 GB of disk are needed" in output
    assert "900 MB are free" in output
    command = output.splitlines()[-1].strip()
    assert command == ("sudo apt-get update && sudo apt-get install -y make python3-venv openjdk-21-jre-headless git")


@pytest.mark.parametrize(("debian", "java"), [("13", "21"), ("12", "17"), ("sid", "21")])
def test_before_its_first_update_apt_knows_no_package_and_the_system_reports_which_java(
    whole: Machine, debian: str, java: str
) -> None:
    (whole.bin / "java").unlink()
    whole.is_debian(debian)
    whole.has("apt-cache", "#!/bin/sh\n")
    assert whole.set_up()[1].splitlines()[-1].endswith(f"install -y openjdk-{java}-jre-headless")


def test_java_8_is_version_8(whole: Machine) -> None:
    whole.has_java("1.8.0_402")
    assert "Java 17 or 21 is needed for Spark (found version 8 in PATH)" in whole.set_up()[1]


def test_a_java_home_without_a_java_is_named(whole: Machine) -> None:
    (whole.bin / "java").unlink()
    output = whole.set_up(JAVA_HOME="/opt/gone")[1]
    assert "(found no bin/java in JAVA_HOME=/opt/gone)" in output


def test_a_java_home_of_another_version_does_not_hide_the_one_that_fits(whole: Machine, tmp_path: Path) -> None:
    (tmp_path / "old/bin").mkdir(parents=True)
    old = whole.has("java8", "#!/bin/sh\necho 'java version \"1.8.0_402\"' >&2\n")
    old.rename(tmp_path / "old/bin/java")
    assert whole.set_up(JAVA_HOME=str(tmp_path / "old"))[0] == 0


def test_nothing_is_downloaded_where_it_would_not_fit(whole: Machine) -> None:
    whole.has_room(900_000)
    assert whole.set_up()[0] == 1
    assert not (whole.tree / ".venv").exists()


def test_a_setup_without_packages_names_them_and_keeps_the_former_environment(
    whole: Machine,
) -> None:
    assert whole.set_up()[0] == 0
    (whole.tree / ".venv/mine").touch()
    (whole.tree / "requirements/dev.txt").write_text("another\n")
    status, output = whole.set_up(NO_NETWORK="1")
    assert (status, (whole.tree / ".venv/mine").exists()) == (1, True)
    assert "the folder wheels of this tree" in output
    assert whole.set_up()[0] == 0
    assert [(whole.tree / name).exists() for name in (".venv/mine", ".venv.before")] == [False, False]


def test_a_second_setup_makes_nothing_again(whole: Machine) -> None:
    assert whole.set_up()[0] == 0
    (whole.tree / ".venv/mine").touch()
    assert whole.set_up(NO_NETWORK="1") == (0, "")
    assert (whole.tree / ".venv/mine").exists()


def test_an_environment_that_is_active_is_replaced_by_the_systems_python(whole: Machine) -> None:
    assert whole.set_up()[0] == 0
    own = whole.tree / ".venv/bin"
    (own / "python3").symlink_to("python")
    (whole.tree / "requirements/dev.txt").write_text("another==1\n")
    assert whole.set_up(PATH=f"{own}:{own}:{whole.bin}") == (0, "setting up .venv (once; some minutes)\n")


def test_a_setup_continues_without_network_from_the_kept_wheels(whole: Machine) -> None:
    (whole.tree / "wheels").mkdir()
    assert whole.set_up(NO_NETWORK="1")[0] == 0
    assert (whole.tree / ".venv/.stamp").exists()


def test_wheels_that_lack_a_package_are_no_reason_to_stop_where_there_is_a_network(whole: Machine) -> None:
    (whole.tree / "wheels").mkdir()
    status, output = whole.set_up(OLD_WHEELS="1")
    assert (status, "wheels lacks some" in output) == (0, True)
    (whole.tree / ".venv/.stamp").unlink()
    status, output = whole.set_up(OLD_WHEELS="1", NO_NETWORK="1")
    assert (status, "could not be fetched" in output) == (1, True)
