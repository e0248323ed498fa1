"""Opens a checkpoint for reading: on the local disk, in an object store with pyarrow.fs, or in HDFS over its REST
interface.

Object stores are opened with the session's Hadoop settings, as Spark does. Missing ones are taken from the environment
by the library: AWS_*, GOOGLE_APPLICATION_CREDENTIALS, AZURE_*, the machine's role. Source of the names: the pages of
hadoop-aws and hadoop-azure, Hadoop 3, and of Google's connector.

fsspec was rejected: pyarrow, which the client needs anyway, has clients for all three object stores, while fsspec would
add s3fs, gcsfs and adlfs on the driver, and does not read Hadoop's settings. Its WebHDFS client waits without a limit
for a silent namenode, and does not try another one if the first is a standby.
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

# A batch waits for these calls; a store to which Spark has just written responds within milliseconds.
CONNECT_S, ANSWER_S, TRIES = 3, 10, 3
KEY_FILES = ("fs.gs.auth.service.account.json.keyfile", "google.cloud.auth.service.account.json.keyfile")
_AWS = re.compile(r"s3[.-]([a-z0-9-]+)\.amazonaws\.com")


class Objects:
    """Reads a checkpoint through a pyarrow file system. `shown`: its location without keys."""

    def __init__(self, files: Any, root: str, shown: str) -> None:
        self._files, self._root, self._shown = files, root.rstrip("/"), shown

    def names(self, folder: str) -> list[str]:
        """Lists the names in a folder. Raises FileNotFoundError and OSError."""
        from pyarrow.fs import FileSelector

        return [info.base_name for info in self._files.get_file_info(FileSelector(f"{self._root}/{folder}"))]

    def read(self, file: str) -> bytes:
        """Reads a whole file. Raises FileNotFoundError and OSError."""
        with self._files.open_input_file(f"{self._root}/{file}") as opened:
            return bytes(opened.read())

    def __str__(self) -> str:
        return self._shown


def of_s3(location: CheckpointLocation, settings: Mapping[str, str]) -> Objects:
    """Opens a folder of a bucket with the bucket's own s3a settings, or else those for all buckets."""
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
    """Returns scheme and host of an endpoint, whose scheme is optional; no host for AWS itself."""
    scheme, sign, host = (endpoint or "").strip().rstrip("/").rpartition("://")
    if host in {"", "s3.amazonaws.com"}:
        return "https", None
    return (scheme if sign else "https" if is_tls else "http"), host


def of_gcs(location: CheckpointLocation, settings: Mapping[str, str]) -> Objects:
    """Opens a folder of a Google Cloud Storage bucket. Raises ValueError for a key file in the settings, which
    pyarrow does not support.
    """
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
    """Opens a folder of a container, `abfss://container@account.dfs.core.windows.net/folder`. Raises ValueError."""
    from pyarrow.fs import AzureFileSystem

    container, at, host = location.authority.partition("@")
    account, dot, suffix = host.partition(".")
    if not (at and dot and account):
        raise ValueError("it is not of the form container@account.dfs.core.windows.net")

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
    """A checkpoint could not be read; the message has the reason."""


class Store(Protocol):
    """A checkpoint open for reading; `str()` names its location, without keys."""

    def names(self, folder: str) -> list[str]:
        """Lists the names in a folder. Raises FileNotFoundError and OSError."""

    def read(self, file: str) -> bytes:
        """Reads a whole file. Raises FileNotFoundError and OSError."""


class LocalDisk:
    """Reads a checkpoint in a folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def names(self, folder: str) -> list[str]:
        return [file.name for file in (self._folder / folder).iterdir()]

    def read(self, file: str) -> bytes:
        return (self._folder / file).read_bytes()

    def __str__(self) -> str:
        return str(self._folder)


# By scheme; each takes the location and Hadoop's settings, and raises OSError, ValueError, ImportError.
OPENERS: dict[str, Callable[[CheckpointLocation, Mapping[str, str]], Store]] = {
    **dict.fromkeys(("s3a", "s3", "s3n"), of_s3),
    **dict.fromkeys(("gs", "gcs"), of_gcs),
    **dict.fromkeys(("abfs", "abfss", "wasb", "wasbs"), of_azure),
    **dict.fromkeys(("hdfs", "webhdfs", "swebhdfs"), webhdfs.of_hdfs),
}


def open_store(location: CheckpointLocation, settings: Mapping[str, str]) -> Store:
    """Opens the checkpoint at a location. `settings`: Hadoop's, by name. Raises OutOfReach."""
    location = location.within(settings.get("fs.defaultFS", DEFAULT_FS))
    if location.is_local:
        return LocalDisk(Path(location.path))
    if location.scheme not in OPENERS:
        raise OutOfReach(f"this client does not support {location.scheme}: file systems")
    try:
        return OPENERS[location.scheme](location, settings)
    except (OSError, ValueError, ImportError) as error:
        raise OutOfReach(f"{location} cannot be opened: {' '.join(str(error).split())[:300]}") from error


def open_url(url: str) -> Store:
    """Opens the checkpoint at an address of pyarrow.fs or WebHDFS. Raises OutOfReach, and BadOption for an invalid
    address.
    """
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
        # Without the cause, which may quote keys in the address.
        raise BadOption(
            f"pyarrow.fs cannot open checkpointUrl {shown}: write s3://bucket/folder, gs://…, abfss://…, "
            "file:///folder or webhdfs://namenode:9870/folder, and pass keys in environment variables"
        ) from None
    return Objects(files, root, shown)
