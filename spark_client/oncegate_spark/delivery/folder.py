"""Writes each record as a file of its own, once: no file is ever replaced."""

import os
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from oncegate_spark.delivery.sink import Record
from oncegate_spark.disk import make_folder, sync_folder
from oncegate_spark.errors import BadId, SinkRefused

NAME_BYTES_MAX = 200  # a file's name has 255 at most; the rest is for the suffix and for what is being written


class FolderSink:
    """Writes each record's body, bytes, to `<folder>/<id, percent-encoded><suffix>`; readers see whole files only.

    Promise: once. A file is written beside, synced, and given its name by a hard link, which fails where the name is
    there: also a writer that was silent for hours replaces nothing and adds nothing. The folder is on a file system
    with hard links, as local disks and NFS have them. Files whose names begin with a dot are what dead writers left.
    """

    records_max = 100  # each is a sync of its own: some of them share a claim, and its lease is long enough for all

    def __init__(self, folder: str | Path, suffix: str = "") -> None:
        self._folder, self._suffix = Path(folder), suffix
        make_folder(self._folder)

    def path(self, record_id: str) -> Path:
        """Return the file of an id. Raises BadId where its name would be too long."""
        name = quote(record_id, safe="") + self._suffix
        name = f"%2E{name[1:]}" if name.startswith(".") else name
        if len(name) > NAME_BYTES_MAX:
            raise BadId(f"id {record_id[:40]!r}… makes a file's name of {len(name)} bytes, over {NAME_BYTES_MAX}")
        return self._folder / name

    def write(self, records: Sequence[Record]) -> None:
        """Write the files that are not there. Raises SinkRefused where a body is not bytes, or an id too long."""
        try:
            files = [(self.path(record.id), memoryview(record.body)) for record in records]
        except (TypeError, BadId) as error:
            raise SinkRefused(
                f"{error}; a body is bytes, an id short enough for a name; nothing was written"
            ) from error
        for path, body in files:
            self._write(path, body)
        sync_folder(self._folder)

    def find(self, ids: Sequence[str]) -> set[str]:
        """Return those that have their file; it was synced before it had its name, and the name is synced here."""
        sync_folder(self._folder)
        return {record_id for record_id in ids if self.path(record_id).exists()}

    def close(self) -> None:
        """Close nothing: no file is open between calls."""

    def _write(self, path: Path, body: memoryview) -> None:
        beside = self._folder / f".{uuid.uuid4().hex}"
        try:
            with beside.open("xb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):  # another has written it: that one stays
                os.link(beside, path)
        finally:
            beside.unlink(missing_ok=True)
