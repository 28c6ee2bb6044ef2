"""Remote file systems for tests: an S3 on loopback (moto's), and pyarrow's local one with faults."""

from __future__ import annotations

import logging
import os
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from rebalance_monitor.checkpoints.storage.hadoop import hadoop_files
from rebalance_monitor.checkpoints.storage.places import place_at
from rebalance_monitor.checkpoints.storage.remote import Remote, Replacing
from rebalance_monitor.checkpoints.storage.remote_place import RemotePlace
from rebalance_monitor.cluster.jars.gateway import java_gateway

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.deploy.minicluster import MiniCluster

BUCKET = "monitors"


@dataclass(frozen=True)
class StoreOfHadoop:
    """A folder that the Hadoop of a JVM reaches."""

    jvm: object
    uri: str


@contextmanager
def as_user(name: str) -> Iterator[None]:
    """Have Hadoop's clients that start meanwhile be this user; without Kerberos it believes them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HADOOP_USER_NAME", name)
        yield


@contextmanager
def hdfs_home(cluster: MiniCluster, user: str = "sre") -> Iterator[StoreOfHadoop]:
    """Give a user a home, which its administrator (`monitor`) makes, and a JVM."""
    uri = f"{cluster.file_system}/user/{user}"
    with as_user("monitor"), java_gateway(()) as jvm:
        home = jvm.org.apache.hadoop.fs.Path(uri)
        files = home.getFileSystem(jvm.org.apache.hadoop.conf.Configuration())
        files.mkdirs(home)
        files.setOwner(home, user, user)
    with as_user(user), java_gateway(()) as jvm:
        # Where ViewFS finds it.
        jvm.java.lang.System.setProperty("spark.hadoop.fs.viewfs.mounttable.default.link./monitors", uri)
        yield StoreOfHadoop(jvm, uri)


@contextmanager
def s3_server() -> Iterator[str]:
    """Serve an empty bucket; give the URI of a folder in it, to which a name may be added before the `?`."""
    import boto3
    from moto.moto_server.threaded_moto_server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    # What the AWS libraries of this process and of its children take as credentials.
    given = {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        _, port = server.get_host_and_port()
        client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1")
        client.create_bucket(Bucket=BUCKET)
        client.close()
        yield f"s3://{BUCKET}?endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"
    finally:
        server.stop()
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def without_conditions(uri: str) -> Iterator[str]:
    """Serve the bucket of `s3_server` by a proxy that drops the conditions of puts; give its URI."""
    address = uri.partition("endpoint_override=")[2].partition("&")[0]

    class Proxy(BaseHTTPRequestHandler):
        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            given = {name: text for name, text in self.headers.items() if not name.lower().startswith("if-")}
            upstream = HTTPConnection(address)
            upstream.request(self.command, self.path, body, given)
            answer = upstream.getresponse()
            content = answer.read()
            self.send_response(answer.status)
            for name, text in answer.getheaders():
                if name.lower() not in {"transfer-encoding", "connection"}:
                    self.send_header(name, text)
            self.end_headers()
            self.wfile.write(content)
            upstream.close()

        do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _pass_on  # noqa: N815 - the library's names

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield uri.replace(address, f"127.0.0.1:{server.server_port}")
        server.shutdown()


def below(uri: str, name: str) -> str:
    """Return the URI of `name` below the one given."""
    plain, _, options = uri.partition("?")
    return f"{plain}/{name}?{options}"


def s3_place(uri: str, name: str) -> RemotePlace:
    """Return a folder of its own in the bucket."""
    place = place_at(below(uri, name))
    assert isinstance(place, RemotePlace)
    return place


class Faulty(pafs.FileSystemHandler):
    """pyarrow's local file system, moving onto nothing, as HDFS; `before(operation, path)` may raise."""

    def __init__(self, before: Callable[[str, str], None] = lambda *_: None) -> None:
        self.before = before
        self._real = pafs.LocalFileSystem()

    def get_type_name(self) -> str:
        return "faulty"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[Any]:
        self.before("look", paths[0])
        return self._real.get_file_info(paths)

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[Any]:
        self.before("list", selector.base_dir)
        return self._real.get_file_info(selector)

    def create_dir(self, path: str, recursive: bool) -> None:  # noqa: FBT001 - pyarrow's signature
        self.before("create_dir", path)
        self._real.create_dir(path, recursive=recursive)

    def delete_dir(self, path: str) -> None:
        self.before("delete_dir", path)
        self._real.delete_dir(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:  # noqa: FBT001, FBT002 - as above
        self._real.delete_dir_contents(path, missing_dir_ok=missing_dir_ok)

    def delete_root_dir_contents(self) -> None:
        raise NotImplementedError

    def delete_file(self, path: str) -> None:
        self.before("delete", path)
        self._real.delete_file(path)

    def move(self, src: str, dest: str) -> None:
        self.before("move", src)
        if Path(dest).exists():
            raise OSError(f"{dest} exists")
        self._real.move(src, dest)

    def copy_file(self, src: str, dest: str) -> None:
        self.before("copy", src)
        self._real.copy_file(src, dest)

    def open_input_stream(self, path: str) -> pa.NativeFile:
        self.before("read", path)
        return self._real.open_input_stream(path, compression=None)

    def open_input_file(self, path: str) -> pa.NativeFile:
        self.before("read", path)
        return self._real.open_input_file(path)

    def open_output_stream(self, path: str, metadata: object) -> pa.NativeFile:  # noqa: ARG002 - as above
        self.before("write", path)
        # Object stores have no folders to make first.
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        return self._real.open_output_stream(path, compression=None)

    def open_append_stream(self, path: str, metadata: object) -> pa.NativeFile:
        raise NotImplementedError


def faulty_place(
    folder: Path, before: Callable[[str, str], None] = lambda *_: None, *, copies: bool = False
) -> RemotePlace:
    """Return `folder` behind `Faulty`, which waits for nothing; `copies`: written as on Azure."""
    system = pafs.PyFileSystem(Faulty(before))
    uri = f"faulty://{folder}"
    replacing = Replacing.COPIED if copies else Replacing.ASIDE
    return RemotePlace(Remote(system, str(folder), uri, uri, replacing, pause=lambda _seconds: None))


def sub_tree_place(folder: Path) -> RemotePlace:
    """Return `folder` as the root of a file system of its own."""
    system = pafs.SubTreeFileSystem(str(folder), pafs.LocalFileSystem())
    return RemotePlace(Remote(system, "home", "subtree://", "subtree://", Replacing.ASIDE))


def hadoop_place(jvm: object, uri: str) -> RemotePlace:
    """Return what a URI names, by the Hadoop of a JVM."""
    files = hadoop_files(uri, uri.partition(":")[0], jvm)
    assert files is not None
    return RemotePlace(Remote(files, files.base, uri, uri, files.replacing))
