"""Opens a checkpoint to read from it: on the disk, in an object store by pyarrow.fs, in HDFS by its REST interface."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from oncegate_spark.errors import BadOption
from oncegate_spark.spark.checkpoint import objects, webhdfs
from oncegate_spark.spark.checkpoint.objects import Objects
from oncegate_spark.spark.checkpoint.places import DEFAULT_FS, CheckpointLocation


class OutOfReach(Exception):
    """Nobody could look into a checkpoint; the text says why."""


class Store(Protocol):
    """A checkpoint that is open for reading; `str()` names its place, without keys."""

    def names(self, folder: str) -> list[str]:
        """The names of what lies in a folder of it. Raises FileNotFoundError, OSError."""

    def read(self, file: str) -> bytes:
        """A file of it, whole. Raises FileNotFoundError, OSError."""


class LocalDisk:
    """Reads a checkpoint that is a folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def names(self, folder: str) -> list[str]:
        """The names of what lies in a folder of it. Raises FileNotFoundError, OSError."""
        return [file.name for file in (self._folder / folder).iterdir()]

    def read(self, file: str) -> bytes:
        """A file of it, whole. Raises FileNotFoundError, OSError."""
        return (self._folder / file).read_bytes()

    def __str__(self) -> str:
        return str(self._folder)


# By the scheme of a place: each takes the place and Hadoop's settings; raises OSError, ValueError, ImportError.
OPENERS: dict[str, Callable[[CheckpointLocation, Mapping[str, str]], Store]] = {
    **dict.fromkeys(("s3a", "s3", "s3n"), objects.of_s3),
    **dict.fromkeys(("gs", "gcs"), objects.of_gcs),
    **dict.fromkeys(("abfs", "abfss", "wasb", "wasbs"), objects.of_azure),
    **dict.fromkeys(("hdfs", "webhdfs", "swebhdfs"), webhdfs.of_hdfs),
}


def open_store(location: CheckpointLocation, settings: Mapping[str, str]) -> Store:
    """Open the checkpoint at a place. `settings`: Hadoop's, by their names. Raises OutOfReach."""
    location = location.within(settings.get("fs.defaultFS", DEFAULT_FS))
    if location.is_local:
        return LocalDisk(Path(location.path))
    if location.scheme not in OPENERS:
        raise OutOfReach(f"this client has no way to {location.scheme}: file systems")
    try:
        return OPENERS[location.scheme](location, settings)
    except (OSError, ValueError, ImportError) as error:
        raise OutOfReach(f"{location} cannot be opened: {' '.join(str(error).split())[:300]}") from error


def open_url(url: str) -> Store:
    """Open the checkpoint at an address of pyarrow.fs, or of WebHDFS. Raises OutOfReach; BadOption for what is none."""
    parts = urlsplit(url)
    shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"  # without keys
    if parts.scheme in webhdfs.SCHEMES and parts.netloc:
        return webhdfs.of_url(parts)
    try:
        from pyarrow.fs import FileSystem

        files, root = FileSystem.from_uri(url)
    except OSError as error:
        raise OutOfReach(f"{shown} cannot be opened") from error
    except (ValueError, TypeError, ImportError):
        # Without the cause, which may quote the keys that stand in the address.
        raise BadOption(
            f"checkpointUrl {shown} is no address that pyarrow.fs opens: write s3://bucket/folder, gs://…, abfss://…, "
            "file:///folder or webhdfs://namenode:9870/folder, and put keys into the environment"
        ) from None
    return Objects(files, root, shown)
