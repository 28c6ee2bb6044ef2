"""File systems that Hadoop's client reaches from a JVM: HDFS, ViewFS, ABFS, S3A, GCS, DBFS, Ozone.

The driver's JVM has the platform's file systems, its configuration and its credentials: delegation tokens
that Spark renews, a keytab, instance profiles. So files are read and written there, through py4j, wherever
the JVM knows the scheme of a URI (`hadoop_jvm.use_jvm`); pyarrow serves the others. The methods are those of
pyarrow's file systems, as far as `remote.Remote` calls them. Files are small and travel whole. A folder is
listed in some twenty calls, however many files it has: Java's streams join their names, sizes and ages.

Raises OSError with Java's own words, FileNotFoundError for what is not there.
"""

from __future__ import annotations

import errno
import json
from contextlib import contextmanager, suppress
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pyarrow.fs as pafs

from rebalance_monitor.checkpoints.errors import first_line
from rebalance_monitor.checkpoints.storage.remote import Replacing

if TYPE_CHECKING:
    from collections.abc import Iterator

Jvm = Any
FILES = "org.apache.hadoop.fs"
PRIVATE = "700"
"""Permissions of the job's folder if this creates it: it holds names of clients and machines."""
MISSING = frozenset({"FileNotFoundException", "NoSuchFileException"})
DENIED = frozenset({"AccessControlException", "AccessDeniedException"})
PIECE = 4 * 1024 * 1024
"""Bytes that are handed over in one call: as text, of which the JVM has several copies at a time."""
FULL = ("QuotaExceeded", "DiskOutOfSpace", "No space left")


REPLACING = {
    "hdfs": Replacing.OVER,
    "webhdfs": Replacing.ASIDE,
    "s3a": Replacing.WHOLE,
    "s3": Replacing.WHOLE,
    "gs": Replacing.WHOLE,
}
"""Scheme -> how; elsewhere aside. Azure shows an empty file until a write is done."""
CREATES_ONCE = frozenset({"hdfs", "webhdfs", "swebhdfs", "gs", "abfs", "abfss"})
"""Schemes of file systems where of two that create one file at once the service refuses one.

S3A asks before it puts, a local file system before it opens: there both may have it.
"""


class NotFilledError(OSError):
    """A file was created, and could not be filled."""


def hadoop_files(uri: str, scheme: str, jvm: Jvm | None) -> HadoopFiles | None:
    """Return the file system of a URI, None where the JVM has none for its scheme. Raises OSError."""
    if jvm is None:
        return None
    with _translated(uri):
        configuration = _configuration(jvm)
        if not _knows(jvm, scheme, configuration):
            return None
        return HadoopFiles(jvm, uri, configuration)


def connected(connection: tuple[int, str]) -> Jvm:
    """Return the view of a JVM that another process of this machine has: see `HadoopFiles.connection`."""
    from py4j.java_gateway import GatewayParameters, JavaGateway  # noqa: PLC0415 - comes with pyspark

    port, token = connection
    return JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token)).jvm


class HadoopFiles:
    """One file system. Paths are those of its URIs, from the root `/` on. Safe for several threads."""

    type_name = "hadoop"

    def __init__(self, jvm: Jvm, uri: str, configuration: Any) -> None:  # noqa: ANN401 - of a JVM
        self._jvm, self._uri = jvm, uri
        address = jvm.org.apache.hadoop.fs.Path(uri).toUri()
        self._files = jvm.org.apache.hadoop.fs.FileSystem.get(address, configuration)
        self._context = None
        self.base = str(address.getPath() or "").rstrip("/")
        scheme = self._scheme()
        self.replacing = REPLACING.get(scheme, Replacing.ASIDE)
        self.creates_once = scheme in CREATES_ONCE
        if self.replacing is Replacing.OVER:
            self._context = jvm.org.apache.hadoop.fs.FileContext.getFileContext(address, configuration)
            self._over = _array(jvm, f"{FILES}.Options$Rename", [_rename(jvm).OVERWRITE])
        self._asked = _Asked(jvm)

    @property
    def connection(self) -> tuple[int, str]:
        """Port and token by which another process of this machine reaches the JVM."""
        parameters = self._jvm._gateway_client.gateway_parameters  # noqa: SLF001 - there is no public way
        return parameters.port, parameters.auth_token

    @property
    def java(self) -> tuple[Jvm, Any]:
        """The JVM, and in it the file system, for what Hadoop's interface has no method for."""
        return self._jvm, self._files

    def get_file_info(self, asked: str | list[str] | pafs.FileSelector) -> Any:  # noqa: ANN401 - as pyarrow has it
        """Return what is known of a path, of each of several, or of all below a folder."""
        if isinstance(asked, str):
            return self._info(asked)
        if isinstance(asked, pafs.FileSelector):
            return list(self._below(asked.base_dir, deep=asked.recursive))
        return [self._info(path) for path in asked]

    def create_dir(self, path: str, *, recursive: bool) -> None:  # noqa: ARG002 - as pyarrow has it
        """Make a folder and its parents; the job's own for its user alone."""
        with _translated(path):
            place = self._path(path)
            if path == self.base and not self._files.exists(place):
                self._files.mkdirs(place, self._jvm.org.apache.hadoop.fs.permission.FsPermission(PRIVATE))
            else:
                self._files.mkdirs(place)

    def delete_file(self, path: str) -> None:
        """Delete a file. FileNotFoundError."""
        self._delete(path, deep=False)

    def delete_dir(self, path: str) -> None:
        """Delete a folder and all in it. FileNotFoundError."""
        self._delete(path, deep=True)

    def move(self, source: str, target: str) -> None:
        """Move a file; onto another one in one step, where the file system has that."""
        with _translated(source):
            if self._context is not None:
                self._context.rename(self._path(source), self._path(target), self._over)
            elif not self._files.rename(self._path(source), self._path(target)):
                raise OSError(f"{source} could not be moved to {target}")

    def copy_file(self, source: str, target: str) -> None:
        """Copy a file."""
        with self.open_input_file(source) as file, self.open_output_stream(target) as stream:
            stream.write(file.read())

    def open_input_file(self, path: str) -> BytesIO:
        """Return the whole file. FileNotFoundError."""
        with _translated(path):
            place = self._path(path)
            size = self._files.getFileStatus(place).getLen()
            stream = self._files.open(place)
            try:
                content = b"".join(self._pieces(stream, size))
                is_longer = stream.read() >= 0
            finally:
                stream.close()
        if is_longer or len(content) != size:
            raise OSError(f"{path} was replaced while it was read, or the driver's JVM has no memory left")
        return BytesIO(content)

    def _pieces(self, stream: Any, size: int) -> Iterator[bytes]:  # noqa: ANN401 - of a JVM
        """Yield the bytes of a stream; those that the JVM has no memory to hand over are missing."""
        utilities = self._jvm.org.apache.commons.io.IOUtils
        for begin in range(0, size, PIECE):
            yield utilities.toByteArray(stream, min(PIECE, size - begin))

    @contextmanager
    def open_output_stream(self, path: str, compression: None = None) -> Iterator[BytesIO]:  # noqa: ARG002 - as pyarrow has it
        """Give what is written to the file when the context ends; nothing is, after an error."""
        given = BytesIO()
        yield given
        with _translated(path):
            self._fill(self._files.create(self._path(path), True), given.getbuffer())  # noqa: FBT003 - Java's signature

    def create_file(self, path: str, content: bytes) -> None:
        """Make a file where there is none. Raises OSError; NotFilledError: it is there, and is not whole."""
        with _translated(path):
            stream = self._files.create(self._path(path), False)  # noqa: FBT003 - Java's signature
        try:
            with _translated(path):
                self._fill(stream, memoryview(content))
        except OSError as error:
            raise NotFilledError(str(error)) from error

    def _fill(self, stream: Any, content: memoryview) -> None:  # noqa: ANN401 - of a JVM
        """Write and close."""
        try:
            for begin in range(0, len(content), PIECE):
                stream.write(bytes(content[begin : begin + PIECE]))
            if self.replacing is not Replacing.WHOLE:
                stream.hsync()
        except BaseException:
            # A put that is closed would be made, short as it is.
            with suppress(Exception):
                stream.abort()
            raise
        stream.close()

    def _scheme(self) -> str:
        """Return the scheme below the base: ViewFS does as the file system that it leads to."""
        scheme = str(self._files.getScheme())
        if scheme == "viewfs":
            base = self._path(self.base)
            while not self._files.exists(base) and base.getParent() is not None:
                base = base.getParent()
            scheme = str(self._files.resolvePath(base).toUri().getScheme())
        return scheme

    def _path(self, path: str) -> Any:  # noqa: ANN401 - of a JVM
        return self._jvm.org.apache.hadoop.fs.Path(path or "/")

    def _info(self, path: str) -> pafs.FileInfo:
        with _translated(path):
            try:
                found = self._files.getFileStatus(self._path(path))
            except Exception as error:
                if _is_missing(error):
                    return pafs.FileInfo(path, pafs.FileType.NotFound)
                raise
            return _file_info(path, found.isDirectory(), found.getLen(), found.getModificationTime())

    def _below(self, folder: str, *, deep: bool) -> Iterator[pafs.FileInfo]:
        with _translated(folder):
            try:
                statuses = self._files.listStatus(self._path(folder))
            except Exception as error:
                if _is_missing(error):
                    return
                raise
            found = self._asked.of(statuses) if len(statuses) else ()
        for name, *known in found:
            info = _file_info(f"{folder}/{name}", *known)
            yield info
            if deep and info.type == pafs.FileType.Directory:
                yield from self._below(info.path, deep=True)

    def _delete(self, path: str, *, deep: bool) -> None:
        with _translated(path):
            if not self._files.delete(self._path(path), deep):
                raise FileNotFoundError(errno.ENOENT, "No such file", path)


class _Asked:
    """Asks many FileStatus at once, by method handles: each value for itself would be a call."""

    def __init__(self, jvm: Jvm) -> None:
        self._jvm = jvm
        self._list = next(m for m in _class(jvm, "java.util.Arrays").getMethods() if m.getName() == "asList")
        self._path, self._name = (
            self._getter(*which) for which in (("FileStatus", "getPath"), ("Path", "getName"))
        )
        self._values = [
            self._getter("FileStatus", name) for name in ("isDirectory", "getLen", "getModificationTime")
        ]

    def of(self, statuses: Any) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401 - of a JVM
        """Yield name, whether it is a folder, bytes, and when it was written (ms), of each."""
        # py4j gives an array to no method that takes one of objects.
        rows = self._list.invoke(None, _array(self._jvm, "java.lang.Object", [statuses]))
        # No name holds a slash.
        joined = self._jvm.java.util.stream.Collectors.joining("/")
        names = rows.stream().map(self._path).map(self._name).collect(joined)
        columns = [
            json.loads(self._jvm.java.util.Arrays.toString(rows.stream().map(value).toArray()))
            for value in self._values
        ]
        return zip(names.split("/"), *columns, strict=True)

    def _getter(self, owner: str, name: str) -> Any:  # noqa: ANN401 - of a JVM
        """Return a java.util.function.Function that calls a method without arguments."""
        kind, function = (
            _class(self._jvm, f"{FILES}.{owner}"),
            _class(self._jvm, "java.util.function.Function"),
        )
        method = next(m for m in kind.getMethods() if m.getName() == name and not m.getParameterCount())
        invoke = self._jvm.java.lang.invoke
        return invoke.MethodHandleProxies.asInterfaceInstance(
            function, invoke.MethodHandles.publicLookup().unreflect(method)
        )


def _file_info(path: str, is_folder: bool, size: int, written_ms: int) -> pafs.FileInfo:  # noqa: FBT001 - a row of a listing
    kind = pafs.FileType.Directory if is_folder else pafs.FileType.File
    return pafs.FileInfo(path, kind, size=size, mtime_ns=written_ms * 1_000_000)


def _configuration(jvm: Jvm) -> Any:  # noqa: ANN401 - of a JVM
    """Return the session's configuration of Hadoop, or the one that a session will begin with."""
    session = jvm.org.apache.spark.sql.SparkSession.getDefaultSession()
    if session.isDefined():
        return session.get().sparkContext().hadoopConfiguration()
    return jvm.org.apache.spark.deploy.SparkHadoopUtil.get().conf()


def _knows(jvm: Jvm, scheme: str, configuration: Any) -> bool:  # noqa: ANN401 - of a JVM
    with suppress(Exception):
        return jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, configuration) is not None
    return False


def _class(jvm: Jvm, name: str) -> Any:  # noqa: ANN401 - of a JVM
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return jvm.java.lang.Class.forName(name, True, loader)  # noqa: FBT003 - Java's signature


def _rename(jvm: Jvm) -> Any:  # noqa: ANN401 - of a JVM
    return getattr(jvm.org.apache.hadoop.fs, "Options$Rename")


def _array(jvm: Jvm, kind: str, values: list[Any]) -> Any:  # noqa: ANN401 - of a JVM
    array = jvm.java.lang.reflect.Array.newInstance(_class(jvm, kind), len(values))
    for number, value in enumerate(values):
        array[number] = value
    return array


def _kinds(error: Exception) -> str:
    """Return the simple names of Java's error and of its causes."""
    found, java = [], getattr(error, "java_exception", None)
    while java is not None:
        found.append(str(java.getClass().getSimpleName()))
        java = java.getCause()
    return " ".join(found)


def _is_missing(error: Exception) -> bool:
    return not MISSING.isdisjoint(_kinds(error).split())


@contextmanager
def _translated(path: str) -> Iterator[None]:
    """Raise what the JVM throws as the OSError that it means."""
    from py4j.protocol import Py4JError, Py4JJavaError  # noqa: PLC0415 - comes with pyspark

    try:
        yield
    except Py4JJavaError as error:
        kinds, java = _kinds(error), error.java_exception
        words = f"{java.getClass().getSimpleName()}: {java.getMessage() or ''}".strip()
        if not MISSING.isdisjoint(kinds.split()):
            raise FileNotFoundError(errno.ENOENT, "No such file", path) from error
        if not DENIED.isdisjoint(kinds.split()):
            raise PermissionError(errno.EACCES, words.partition("\n")[0], path) from error
        if any(word in f"{kinds} {words}" for word in FULL):
            raise OSError(errno.EDQUOT, words.partition("\n")[0], path) from error
        raise OSError(f"{path}: {words}".partition("\n")[0]) from error
    except (Py4JError, ConnectionError) as error:
        raise OSError(f"{path}: the driver's JVM does not answer: {first_line(error)}") from error
