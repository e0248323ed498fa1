"""An S3 server in this process (moto), and the upload of files that Spark has written."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from moto.moto_server.threaded_moto_server import ThreadedMotoServer
from pyarrow.fs import FileSystem, LocalFileSystem, S3FileSystem, copy_files

KEYS = {"access_key": "reader", "secret_key": "not a secret"}


class S3:
    """A bucket, `bucket`, on a free port of 127.0.0.1."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.files: FileSystem = S3FileSystem(
            **KEYS, region="us-east-1", scheme="http", endpoint_override=address, allow_bucket_creation=True
        )
        self.files.create_dir("bucket")

    def put(self, folder: Path, name: str) -> None:
        """Copies a folder from disk to a folder of the bucket."""
        self.files.create_dir(f"bucket/{name}")
        copy_files(str(folder), f"bucket/{name}", LocalFileSystem(), self.files, use_threads=False)

    def url(self, name: str) -> str:
        keys = "reader:not%20a%20secret"
        return f"s3://{keys}@bucket/{name}?scheme=http&endpoint_override={self.address}&region=us-east-1"

    def settings(self, **more: str) -> dict[str, str]:
        """Returns the Hadoop settings of a session."""
        return {
            "fs.s3a.endpoint": f"http://{self.address}",
            "fs.s3a.access.key": KEYS["access_key"],
            "fs.s3a.secret.key": KEYS["secret_key"],
            "fs.s3a.path.style.access": "true",
            **more,
        }


@contextmanager
def s3() -> Iterator[S3]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield S3(f"{host}:{port}")
    finally:
        server.stop()
