"""A small WebHDFS server over a folder: enough for Spark to keep a checkpoint in it.

Source: the page WebHDFS of Hadoop 3. Like a namenode, it redirects opens and creates, in this case to itself.
"""

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

DEFAULTS = {
    "blockSize": 1 << 27,
    "bytesPerChecksum": 512,
    "writePacketSize": 65536,
    "replication": 1,
    "fileBufferSize": 4096,
    "encryptDataTransfer": False,
    "checksumType": 2,
}


class WebHdfsServer(ThreadingHTTPServer):
    """Serves `root` on a free port of 127.0.0.1.

    `asked`: each verb and path. `standby`: answers as a standby. `kerberos`: rejects clients without a ticket.
    """

    daemon_threads = True

    def __init__(self, root: Path, standby: bool = False, kerberos: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.root, self.standby, self.kerberos = root, standby, kerberos
        self.asked: list[str] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_port}"

    def url(self, path: str) -> str:
        return f"webhdfs://{self.address}/{path}"


@contextmanager
def webhdfs(root: Path, **kinds: bool) -> Iterator[WebHdfsServer]:
    with WebHdfsServer(root, **kinds) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: WebHdfsServer
    protocol_version = "HTTP/1.1"

    def handle_any(self) -> None:
        parts = urlsplit(self.path)
        query = {name.lower(): values[0] for name, values in parse_qs(parts.query).items()}
        self.data = self.rfile.read(int(self.headers.get("Content-Length") or 0)) if self.command != "GET" else b""
        if "chunked" in (self.headers.get("Transfer-Encoding") or ""):
            self.data = self.chunks()
        path = unquote(parts.path.removeprefix("/webhdfs/v1")) or "/"
        verb = query["op"].upper()
        self.server.asked.append(f"{verb} {path}")
        if self.server.kerberos:
            return self.answer(401, b"")
        if self.server.standby:
            return self.refuse(403, "StandbyException", "Operation category READ is not supported in state standby")
        file = self.server.root / path.lstrip("/")
        if verb in {"OPEN", "CREATE"} and "moved" not in query:
            return self.answer(307, b"", Location=f"http://{self.server.address}{self.path}&moved=true")
        try:
            getattr(self, f"do_{verb.lower()}")(file, query)
        except FileNotFoundError:
            self.refuse(404, "FileNotFoundException", f"File does not exist: {path}")
        except AttributeError:
            self.refuse(400, "UnsupportedOperationException", f"{verb} is not supported")

    do_GET = do_PUT = do_POST = do_DELETE = handle_any

    def do_getfilestatus(self, file: Path, query: dict[str, str]) -> None:
        self.tell(FileStatus=status(file, ""))

    do_getfilelinkstatus = do_getfilestatus

    def do_gethomedirectory(self, file: Path, query: dict[str, str]) -> None:
        self.tell(Path="/user/spark")

    def do_setpermission(self, file: Path, query: dict[str, str]) -> None:
        self.answer(200, b"")

    def do_liststatus(self, file: Path, query: dict[str, str]) -> None:
        found = [status(one, one.name) for one in sorted(file.iterdir())] if file.is_dir() else [status(file, "")]
        self.tell(FileStatuses={"FileStatus": found})

    def do_open(self, file: Path, query: dict[str, str]) -> None:
        self.answer(200, file.read_bytes()[int(query.get("offset", "0")) :])

    def do_create(self, file: Path, query: dict[str, str]) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(self.data)
        self.answer(201, b"")

    def do_mkdirs(self, file: Path, query: dict[str, str]) -> None:
        file.mkdir(parents=True, exist_ok=True)
        self.tell(boolean=True)

    def do_rename(self, file: Path, query: dict[str, str]) -> None:
        new = self.server.root / query["destination"].lstrip("/")
        if "OVERWRITE" not in query.get("renameoptions", "") and new.exists():
            return self.refuse(403, "FileAlreadyExistsException", f"{new} exists")
        file.replace(new)
        return self.tell(boolean=True)

    def do_delete(self, file: Path, query: dict[str, str]) -> None:
        there = file.exists()
        shutil.rmtree(file) if file.is_dir() else file.unlink(missing_ok=True)
        self.tell(boolean=there)

    def do_getserverdefaults(self, file: Path, query: dict[str, str]) -> None:
        self.tell(FsServerDefaults=DEFAULTS)

    def chunks(self) -> bytes:
        data = b""
        while size := int(self.rfile.readline(), 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return data

    def tell(self, **answer: Any) -> None:
        self.answer(200, json.dumps(answer).encode())

    def refuse(self, code: int, exception: str, message: str) -> None:
        told = {"exception": exception, "javaClassName": java_class(exception), "message": message}
        self.answer(code, json.dumps({"RemoteException": told}).encode())

    def answer(self, code: int, body: bytes, **headers: str) -> None:
        """Answers without a Content-Type: Spark 4.3's jars lack the class with which Hadoop's client would read one."""
        self.send_response(code)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def java_class(exception: str) -> str:
    package = {"FileNotFoundException": "java.io", "UnsupportedOperationException": "java.lang"}
    return f"{package.get(exception, 'org.apache.hadoop.fs')}.{exception}"


def status(file: Path, suffix: str) -> dict[str, Any]:
    found = file.stat()
    return {
        "pathSuffix": suffix,
        "type": "DIRECTORY" if file.is_dir() else "FILE",
        "length": 0 if file.is_dir() else found.st_size,
        "modificationTime": int(found.st_mtime * 1000),
        "accessTime": 0,
        "blockSize": 1 << 27,
        "replication": 1,
        "permission": "755",
        "owner": "spark",
        "group": "spark",
        "fileId": found.st_ino,
        "childrenNum": 0,
    }
