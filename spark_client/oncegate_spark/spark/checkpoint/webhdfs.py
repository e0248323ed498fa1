"""Reads a checkpoint in HDFS over WebHDFS, every namenode's REST interface, with the standard library.

Source: the page WebHDFS of Hadoop 3. Simple authentication: `user.name`, from HADOOP_USER_NAME or the process's user.
"""

import getpass
import http.client
import json
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult, quote, unquote, urlencode, urlsplit

from oncegate_spark.spark.checkpoint.hadoop import CheckpointLocation

SCHEMES = {"webhdfs": False, "swebhdfs": True}  # True for TLS
ANSWER_S = 10
REDIRECTS = 3  # the namenode redirects a reader to a datanode; a proxy adds another redirect
PORTS = {False: 9870, True: 9871}


class WebHdfs:
    """Reads a checkpoint from the first of several namenodes that is active.

    `namenodes`: host:port each; `query`: sent with each request to identify the user, without "?".
    """

    def __init__(self, namenodes: list[str], root: str, is_tls: bool, query: str) -> None:
        self._namenodes, self._root, self._query = namenodes, root.rstrip("/"), query
        self._scheme = "https" if is_tls else "http"

    def names(self, folder: str) -> list[str]:
        """Lists the names in a folder. Raises FileNotFoundError and OSError."""
        try:
            statuses = json.loads(self._ask(folder, "LISTSTATUS"))["FileStatuses"]["FileStatus"]
            return [status["pathSuffix"] for status in statuses]
        except (ValueError, KeyError, TypeError) as error:
            raise OSError("the reply is not one of WebHDFS") from error

    def read(self, file: str) -> bytes:
        """Reads a whole file. Raises FileNotFoundError and OSError."""
        return self._ask(file, "OPEN")

    def __str__(self) -> str:
        return f"{self._root} in HDFS at {', '.join(self._namenodes)}"

    def _ask(self, path: str, verb: str) -> bytes:
        """Returns the active namenode's reply. Raises FileNotFoundError, or OSError with the last namenode's reason."""
        last = OSError("no namenode is configured")
        for namenode in self._namenodes:
            parameters = f"op={verb}{f'&{self._query}' if self._query else ''}"
            try:
                return _get(f"{self._scheme}://{namenode}/webhdfs/v1{quote(f'{self._root}/{path}')}?{parameters}")
            except FileNotFoundError:
                raise
            except OSError as error:
                last = error
        raise last


def _get(url: str, redirects: int = REDIRECTS) -> bytes:
    """Returns the body at an address, following redirects. Raises FileNotFoundError and OSError."""
    parts = urlsplit(url)
    make: Any = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = make(parts.netloc, timeout=ANSWER_S)
    try:
        connection.request("GET", f"{parts.path}?{parts.query}")
        reply = connection.getresponse()
        body = bytes(reply.read())
    except http.client.HTTPException as error:
        raise OSError(f"{parts.netloc} did not reply in HTTP: {error!r}") from error
    finally:
        connection.close()
    if reply.status in {301, 302, 307, 308} and redirects:
        return _get(reply.headers["Location"], redirects - 1)
    if reply.status != 200:
        raise _refusal(parts.netloc, reply.status, body)
    return body


def _refusal(host: str, status: int, body: bytes) -> OSError:
    """Returns the error for a status other than 200: FileNotFoundError for a path that does not exist."""
    try:
        remote = json.loads(body)["RemoteException"]
        kind, text = str(remote["exception"]), str(remote["message"]).partition("\n")[0]
    except (ValueError, KeyError, TypeError):
        kind, text = "", ""
    if kind == "FileNotFoundException":
        return FileNotFoundError(text)
    if status == 401:
        return PermissionError(f"{host} requires Kerberos, which this client does not support")
    return OSError(f"{host} answered {status} {kind} {text}".rstrip())


def of_url(parts: SplitResult) -> WebHdfs:
    """Opens `webhdfs://namenode:9870/folder`; its query is sent with each request (`user.name=…`, `delegation=…`)."""
    return WebHdfs([parts.netloc], unquote(parts.path), SCHEMES[parts.scheme], parts.query or _user())


def of_hdfs(location: CheckpointLocation, settings: Mapping[str, str]) -> WebHdfs:
    """Opens a folder of HDFS with the settings of hdfs-site.xml. Raises ValueError if they name no namenode."""
    if location.scheme in SCHEMES and location.authority not in _names(settings, "dfs.nameservices"):
        return WebHdfs([location.authority], location.path, SCHEMES[location.scheme], _user())
    is_tls = settings.get("dfs.http.policy") == "HTTPS_ONLY"
    named = f"dfs.namenode.{'https' if is_tls else 'http'}-address"
    service = location.authority
    if service in _names(settings, "dfs.nameservices"):
        keys = [f"{named}.{service}.{node}" for node in _names(settings, f"dfs.ha.namenodes.{service}")]
        addresses = [settings[key] for key in keys or [f"{named}.{service}"] if key in settings]
    else:
        host = service.partition(":")[0]
        bound, _, port = settings.get(named, "").rpartition(":")
        addresses = [f"{host if bound in ('', '0.0.0.0') else bound}:{port or PORTS[is_tls]}"] if host else []
    if not addresses:
        raise ValueError(f"the setting {named} with the namenode's WebHDFS address is missing")
    return WebHdfs(addresses, location.path, is_tls, _user())


def _names(settings: Mapping[str, str], name: str) -> list[str]:
    return [name.strip() for name in settings.get(name, "").split(",") if name.strip()]


def _user() -> str:
    return urlencode({"user.name": os.environ.get("HADOOP_USER_NAME") or getpass.getuser()})
