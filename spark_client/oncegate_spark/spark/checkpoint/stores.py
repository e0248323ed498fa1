"""Opens a checkpoint to read from it: on the disk, in an object store by pyarrow.fs, in HDFS by its REST interface.

Object stores are opened as Spark reaches them, by Hadoop's settings of the session. What these leave out the library
finds in the environment: AWS_*, GOOGLE_APPLICATION_CREDENTIALS, AZURE_*, the role of the machine. Source of the names:
the pages of hadoop-aws and hadoop-azure, Hadoop 3, and of Google's connector.

Why not fsspec: pyarrow, which the client needs anyway, has the clients of all three object stores, and fsspec would
bring s3fs, gcsfs and adlfs onto the driver; the lines here translate Hadoop's settings, which it does not know. Its
WebHDFS waits without a limit for a namenode that is silent, and asks no other where the first is a standby.
"""

import os
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from oncegate_spark.errors import BadOption
from oncegate_spark.spark.checkpoint import webhdfs
from oncegate_spark.spark.checkpoint.hadoop import DEFAULT_FS, CheckpointLocation

# A batch waits for these: a store that Spark has just written to answers in milliseconds.
CONNECT_S, ANSWER_S, TRIES = 3, 10, 3
KEY_FILES = ("fs.gs.auth.service.account.json.keyfile", "google.cloud.auth.service.account.json.keyfile")
_AWS = re.compile(r"s3[.-]([a-z0-9-]+)\.amazonaws\.com")


class Objects:
    """Reads a checkpoint through a file system of pyarrow's. `shown`: its place without keys."""

    def __init__(self, files: Any, root: str, shown: str) -> None:
        self._files, self._root, self._shown = files, root.rstrip("/"), shown

    def names(self, folder: str) -> list[str]:
        """The names of what lies in a folder of it. Raises FileNotFoundError, OSError."""
        from pyarrow.fs import FileSelector

        return [info.base_name for info in self._files.get_file_info(FileSelector(f"{self._root}/{folder}"))]

    def read(self, file: str) -> bytes:
        """A file of it, whole. Raises FileNotFoundError, OSError."""
        with self._files.open_input_file(f"{self._root}/{file}") as opened:
            return bytes(opened.read())

    def __str__(self) -> str:
        return self._shown


def of_s3(location: CheckpointLocation, settings: Mapping[str, str]) -> Objects:
    """Open a folder of a bucket, with the settings of s3a: of this bucket, else of all."""
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem, resolve_s3_region

    bucket = location.authority

    def of(name: str) -> str | None:
        return settings.get(f"fs.s3a.bucket.{bucket}.{name}") or settings.get(f"fs.s3a.{name}") or None

    scheme, host = _address(of("endpoint"), of("connection.ssl.enabled") != "false")
    match = _AWS.fullmatch(host or "")
    region = of("endpoint.region") or (match and match[1]) or _environment_region() or (host and "us-east-1")
    files = S3FileSystem(
        **_s3_keys(of("aws.credentials.provider"), of("access.key"), of("secret.key"), of("session.token")),
        region=region or resolve_s3_region(bucket),
        scheme=scheme,
        endpoint_override=host,
        force_virtual_addressing=host is not None and of("path.style.access") != "true",
        connect_timeout=CONNECT_S,
        request_timeout=ANSWER_S,
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=TRIES),
    )
    return Objects(files, f"{bucket}{location.path}", f"{location} (at {host})" if host else str(location))


def _s3_keys(provider: str | None, key: str | None, secret: str | None, token: str | None) -> dict[str, Any]:
    if "Anonymous" in (provider or ""):
        return {"anonymous": True}
    return {"access_key": key, "secret_key": secret, "session_token": token} if key and secret else {}


def _environment_region() -> str | None:
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")


def _address(endpoint: str | None, is_tls: bool) -> tuple[str, str | None]:
    """Scheme and host of an endpoint, which may stand without its scheme; no host for AWS itself."""
    scheme, sign, host = (endpoint or "").strip().rstrip("/").rpartition("://")
    if host in {"", "s3.amazonaws.com"}:
        return "https", None
    return (scheme if sign else "https" if is_tls else "http"), host


def of_gcs(location: CheckpointLocation, settings: Mapping[str, str]) -> Objects:
    """Open a folder of a bucket of Google's. Raises ValueError for a key file in the settings: pyarrow takes none."""
    from pyarrow.fs import GcsFileSystem

    key_file = next((settings[name] for name in KEY_FILES if settings.get(name)), None)
    if key_file and not os.environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
        raise ValueError(f"export GOOGLE_APPLICATION_CREDENTIALS={key_file} before Spark starts")
    scheme, host = _address(settings.get("fs.gs.storage.root.url"), True)
    files = GcsFileSystem(
        anonymous=settings.get("fs.gs.auth.type") == "UNAUTHENTICATED",
        scheme=scheme,
        endpoint_override=host,
        retry_time_limit=timedelta(seconds=ANSWER_S),
    )
    return Objects(files, f"{location.authority}{location.path}", str(location))


def of_azure(location: CheckpointLocation, settings: Mapping[str, str]) -> Objects:
    """Open a folder of a container, `abfss://container@account.dfs.core.windows.net/folder`. Raises ValueError."""
    from pyarrow.fs import AzureFileSystem

    container, at, host = location.authority.partition("@")
    account, dot, suffix = host.partition(".")
    if not (at and dot and account):
        raise ValueError("it names no container@account.dfs.core.windows.net")

    def of(name: str) -> str | None:
        return settings.get(f"fs.azure.{name}.{host}") or settings.get(f"fs.azure.{name}") or None

    token = of("sas.fixed.token")
    issuer = urlsplit(of("account.oauth2.client.endpoint") or "").path.strip("/").split("/")[0]
    files = AzureFileSystem(
        account,
        account_key=of("account.key"),
        sas_token=f"?{token.lstrip('?')}" if token else None,
        client_id=of("account.oauth2.client.id"),
        client_secret=of("account.oauth2.client.secret"),
        tenant_id=issuer or None,
        dfs_storage_authority=f".{suffix.replace('blob.', 'dfs.', 1)}",
        blob_storage_authority=f".{suffix.replace('dfs.', 'blob.', 1)}",
    )
    return Objects(files, f"{container}{location.path}", str(location))


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
    **dict.fromkeys(("s3a", "s3", "s3n"), of_s3),
    **dict.fromkeys(("gs", "gcs"), of_gcs),
    **dict.fromkeys(("abfs", "abfss", "wasb", "wasbs"), of_azure),
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
