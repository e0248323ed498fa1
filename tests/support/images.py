"""The container image, built and run by Docker or buildah for `make image-test`; otherwise its tests are skipped.

If the base image cannot be pulled and mmdebstrap is installed, buildah builds on Debian's own Python instead. That
tests the steps of the Dockerfile, but not the image that users get.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.tree import ROOT

TAG = "oncegate-test"
TRUSTED = "/etc/ssl/certs"
UID = 65532
USER = f"{UID}:{UID}"
PACKAGES = "python3,python3-venv,python3-pip,ca-certificates"


class Builder:
    """A built image. `run` starts the entry point and `python` runs code, both on a read-only root."""

    def run(self, *arguments: str) -> str:
        return self._told("oncegate", *arguments)

    def python(self, lines: str) -> str:
        return self._told("python3", "-c", lines)

    def _told(self, *command: str) -> str:
        done = subprocess.run(self._command(*command), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def _command(self, *command: str) -> list[str]:
        raise NotImplementedError


class Docker(Builder):
    """Builds and runs with a Docker daemon."""

    def __init__(self) -> None:
        subprocess.run(["docker", "build", "--tag", TAG, ROOT], check=True)

    def _command(self, *command: str) -> list[str]:
        name, *arguments = command
        options = ["--rm", "--read-only", "--tmpfs", "/tmp", "--network", "none", "--entrypoint", name]
        return ["docker", "run", *options, TAG, *arguments]


class Buildah(Builder):
    """Builds with buildah in its own storage. Buildah cannot run on a read-only root, so the root is mounted by
    hand."""

    def __init__(self, folder: Path) -> None:
        self._buildah = ["buildah", "--root", str(folder / "root"), "--runroot", str(folder / "run")]
        # vfs copies the whole image at each step, but needs no privileges.
        self._buildah += ["--storage-driver", "overlay" if os.geteuid() == 0 else "vfs"]
        (base,) = {line.split()[1] for line in (ROOT / "Dockerfile").read_text().splitlines() if line[:5] == "FROM "}
        if self._asked("pull", "--quiet", base).returncode != 0:
            self._stand_in(folder, base)
        # The certificates that this machine trusts: a proxy may have its own.
        trusted = ["--volume", f"{TRUSTED}:{TRUSTED}:ro"]
        options = ["--isolation", "chroot", "--format", "docker", "--pull=false", *trusted, "--tag", TAG]
        self._do("bud", *options, str(ROOT))
        container = self._do("from", TAG)
        self._mounted = self._do("mount", container)
        asked = ("inspect", "--format", "{{range .OCIv1.Config.Env}}{{println .}}{{end}}", container)
        self._environment = self._do(*asked).split()

    def _stand_in(self, folder: Path, base: str) -> None:
        """Builds an image of Debian with Python under the name of the base image."""
        if shutil.which("mmdebstrap") is None:
            pytest.skip(f"{base} cannot be pulled, and mmdebstrap is not there to make another base")
        tar = folder / "base.tar"
        made = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(tar)]
        subprocess.run(made, check=True)
        container = self._do("from", "scratch")
        self._do("add", container, str(tar), "/")
        (folder / "pip.conf").write_text(f"[global]\ncert = {TRUSTED}/ca-certificates.crt\n")
        self._do("copy", container, str(folder / "pip.conf"), "/etc/pip.conf")
        self._do("config", "--env", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", container)
        self._do("commit", "--quiet", "--rm", container, f"docker.io/library/{base}")

    def _asked(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([*self._buildah, *arguments], capture_output=True, text=True, check=False)

    def _do(self, *arguments: str) -> str:
        done = self._asked(*arguments)
        assert done.returncode == 0, f"{arguments}: {done.stdout[-3_000:]}{done.stderr[-3_000:]}"
        return done.stdout.strip()

    def _command(self, *command: str) -> list[str]:
        root = self._mounted
        read_only = f"mount --bind {root} {root} && mount -o remount,ro,bind {root} && mount -t tmpfs tmpfs {root}/tmp"
        volume = f"mount -t tmpfs -o uid={UID},gid={UID} tmpfs {root}/data"
        begun = (
            f'{read_only} && {volume} && mount -t proc proc {root}/proc && exec chroot --userspec={USER} {root} "$@"'
        )
        return ["unshare", "--mount", "sh", "-c", begun, "sh", "env", "-i", *self._environment, *command]

    def close(self) -> None:
        self._asked("umount", "--all")
        self._asked("rm", "--all")


@contextmanager
def builder() -> Iterator[Builder]:
    """Builds the image once. Skips the test outside `make image-test`, or if neither tool is installed."""
    if os.environ.get("NEEDS_IMAGE") != "true":
        pytest.skip("`make image-test` builds the image, which takes minutes")
    if shutil.which("docker") and subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0:
        yield Docker()
    elif shutil.which("buildah"):
        with tempfile.TemporaryDirectory(prefix="oncegate-image-") as folder:
            built = Buildah(Path(folder))
            yield built
            built.close()
    else:
        pytest.skip("neither a Docker daemon nor buildah is there to build the image")
