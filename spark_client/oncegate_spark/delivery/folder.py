"""Writes each record once, as a file of its own; never replaces a file."""

import os
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from oncegate_spark.delivery.sink import Record
from oncegate_spark.disk import make_folder, sync_folder
from oncegate_spark.errors import BadId, SinkRefused

NAME_BYTES_MAX = 200  # a file name has at most 255 bytes; the rest is for the suffix


class FolderSink:
    """Writes each record's body, bytes, to `<folder>/<id, percent-encoded><suffix>`; readers see only complete files.

    Guarantee: once. A file is written under a temporary name, synced, and published with a hard link, which fails if
    the name exists; so a writer that resumes hours later neither replaces nor adds anything. The file system must
    support hard links, as local disks and NFS do. Files whose names begin with a dot are left over from dead writers.
    """

    records_max = 100  # each record needs a sync; a lease is long enough for all records of a claim

    def __init__(self, folder: str | Path, suffix: str = "") -> None:
        self._folder, self._suffix = Path(folder), suffix
        make_folder(self._folder)

    def path(self, record_id: str) -> Path:
        """Returns the file of an id. Raises BadId if its name would be too long."""
        name = quote(record_id, safe="") + self._suffix
        name = f"%2E{name[1:]}" if name.startswith(".") else name
        if len(name) > NAME_BYTES_MAX:
            raise BadId(f"id {record_id[:40]!r}… gives a file name of {len(name)} bytes; the limit is {NAME_BYTES_MAX}")
        return self._folder / name

    def write(self, records: Sequence[Record]) -> None:
        """Writes the files that do not exist. Raises SinkRefused if a body is not bytes, or an id too long."""
        try:
            files = [(self.path(record.id), memoryview(record.body)) for record in records]
        except (TypeError, BadId) as error:
            raise SinkRefused(
                f"{error}; a body must be bytes, and an id fit into a file name; nothing was written"
            ) from error
        for path, body in files:
            self._write(path, body)
        sync_folder(self._folder)

    def find(self, ids: Sequence[str]) -> set[str]:
        """Returns the ids whose file exists. The file was synced before it was named; the name is synced here."""
        sync_folder(self._folder)
        return {record_id for record_id in ids if self.path(record_id).exists()}

    def close(self) -> None:
        """Does nothing: no file is open between calls."""

    def _write(self, path: Path, body: memoryview) -> None:
        beside = self._folder / f".{uuid.uuid4().hex}"
        try:
            with beside.open("xb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):  # another writer was first: its file stays
                os.link(beside, path)
        finally:
            beside.unlink(missing_ok=True)
