"""The ownership of a spill folder: one process at a time, despite forks, and not accessible to other users."""

import os
import signal
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pyarrow as pa
import pytest

from oncegate_spark import BadOption, Spill
from oncegate_spark.spill import SpillEntry


def entry() -> SpillEntry:
    return SpillEntry("shop", "orders", pa.table({"id": ["a"]}), ("id",))


def opened(folder: Path) -> list[int]:
    """Returns this process's open descriptors of the folder."""
    links = {one.name: one for one in Path("/proc/self/fd").iterdir()}
    return [int(name) for name, one in links.items() if one.is_symlink() and one.readlink() == folder]


def test_another_process_is_refused_until_the_first_releases_the_folder(tmp_path: Path) -> None:
    opens = f"from oncegate_spark import Spill; Spill({str(tmp_path)!r})"
    with Spill(tmp_path) as spill:
        other = subprocess.run([sys.executable, "-c", opens], capture_output=True, text=True, check=False)
        assert other.returncode == 1
        assert "is in use: each process needs a folder of its own" in other.stderr
        with pytest.raises(BadOption, match="is in use"):
            Spill(tmp_path)
    with Spill(tmp_path):
        pass
    with pytest.raises(BadOption, match="not open in this process"):
        spill.append(entry())


def test_a_forked_child_cannot_use_the_folder_of_its_parent_nor_give_up_its_lock(tmp_path: Path) -> None:
    with Spill(tmp_path) as spill:
        child = os.fork()
        if child == 0:
            try:
                spill.append(entry())
            except BadOption:
                spill.close()
                os._exit(7 if not opened(tmp_path) else 8)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert spill.waiting == 0
        with pytest.raises(BadOption, match="is in use"):
            Spill(tmp_path)


FORKS_AND_DIES = """
    import os, signal
    from oncegate_spark import Spill
    spill = Spill({folder!r})
    forked, says = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(says, b".")
        signal.pause()
    os.read(forked, 1)  # it has closed what it does not own
    print(child, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_folder_is_free_when_its_process_is_killed_though_a_forked_child_lives(tmp_path: Path) -> None:
    program = textwrap.dedent(FORKS_AND_DIES).format(folder=str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        try:
            assert parent.wait() == -signal.SIGKILL
            with Spill(tmp_path):
                pass
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_folder_is_free_when_it_is_closed_though_something_has_a_copy_of_its_descriptor(tmp_path: Path) -> None:
    """For example a child that was forked outside Python, or has not closed it yet."""
    spill = Spill(tmp_path)
    (descriptor,) = opened(tmp_path)
    copy = os.dup(descriptor)
    try:
        spill.close()
        with Spill(tmp_path):
            pass
    finally:
        os.close(copy)


def test_a_folder_whose_start_fails_is_let_go(tmp_path: Path) -> None:
    (tmp_path / "no-file.half").mkdir()
    with pytest.raises(BadOption, match="cannot be used") as raised:
        Spill(tmp_path)
    assert opened(tmp_path) == [], "let go at once, not when the last reference goes"
    assert "no-file.half" in str(raised.value)
    (tmp_path / "no-file.half").rmdir()
    with Spill(tmp_path):
        pass


def test_rows_that_wait_are_readable_by_their_user_alone(tmp_path: Path) -> None:
    folder = tmp_path / "spool" / "shop"
    before = os.umask(0)
    try:
        with Spill(folder) as spill:
            spill.append(entry())
    finally:
        os.umask(before)
    (path,) = folder.iterdir()
    assert [stat.S_IMODE(one.stat().st_mode) for one in (folder, path)] == [0o700, 0o600]


@pytest.mark.parametrize("mode", [0o770, 0o702])
def test_a_folder_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    with pytest.raises(BadOption, match=rf"has mode {mode:o}; .* chmod 700.*; nothing was sent$") as raised:
        Spill(tmp_path)
    assert "\n" not in str(raised.value)
    tmp_path.chmod(0o755)
    with Spill(tmp_path):
        pass


def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        os.chown(tmp_path, 65534, -1)
    folder = tmp_path if os.geteuid() == 0 else Path("/usr")
    with pytest.raises(BadOption, match=rf"only its owner, user {os.geteuid()},"):
        Spill(folder)
