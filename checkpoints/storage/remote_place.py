"""What a URI names, as a place: `pathlib`'s ways over a remote file system (checkpoints/storage/remote.py).

Hadoop's client in the driver's JVM serves it where there is one that knows the scheme, pyarrow elsewhere.
Refuses URIs with a password, which would be printed, and what neither knows.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

from rebalance_monitor.checkpoints.errors import FolderError, StoreError, UnreachableError, first_line
from rebalance_monitor.checkpoints.storage.hadoop import HadoopFiles, connected, hadoop_files
from rebalance_monitor.checkpoints.storage.hadoop_jvm import jvm_for
from rebalance_monitor.checkpoints.storage.mounts import name_for_spark
from rebalance_monitor.checkpoints.storage.remote import DRAFT, NEXT, Remote, Replacing, beside

if TYPE_CHECKING:
    from collections.abc import Iterable

SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
BY_ARROW = {"s3": Replacing.WHOLE, "gcs": Replacing.WHOLE, "abfs": Replacing.COPIED}
FOR_SPARK = {"s3": "s3a", "gcs": "gs"}
LOCATED = frozenset({"region", "endpoint_override"})
"""Options of a URI that say where a bucket of S3 lies."""
NO_NETWORK = "NETWORK_CONNECTION"
"""The AWS library's word for a network that may be back later."""
SECRET_OPTIONS = frozenset(
    {"account_key", "client_secret", "sas_token", "access_key", "secret_key", "session_token"}
)
_HIDDEN = re.compile(rf"\.(?P<name>.+)({re.escape(DRAFT)}|{re.escape(NEXT)})")


@dataclass(frozen=True, slots=True)
class RemoteStat:
    """See `places.Stat`."""

    st_size: int
    st_mtime_ns: int

    @property
    def st_mtime(self) -> float:
        """Seconds since epoch."""
        return self.st_mtime_ns / 1e9


@dataclass(frozen=True, slots=True)
class RemotePlace:
    """See `places.Place`. `path`: below the remote's base, "" for the base itself.

    `known`: what a listing said of it.
    """

    remote: Remote
    path: str = ""
    known: Any = field(default=None, compare=False)

    @property
    def key(self) -> str:
        """The name on pyarrow's file system."""
        return f"{self.remote.base}/{self.path}".rstrip("/")

    @property
    def by_hadoop(self) -> bool:
        """Whether Hadoop's client serves it, as it serves Spark."""
        return isinstance(self.remote.filesystem, HadoopFiles)

    @property
    def name(self) -> str:
        """The last part."""
        return PurePosixPath(self.key).name

    @property
    def suffix(self) -> str:
        """The name's end from its last dot on."""
        return PurePosixPath(self.key).suffix

    @property
    def parent(self) -> Self:
        """The folder above, the base's own being itself."""
        return type(self)(self.remote, self.path.rpartition("/")[0])

    def __truediv__(self, name: str, /) -> Self:
        """Return what is called `name` below this one."""
        return type(self)(self.remote, f"{self.path}/{name}".strip("/"))

    def __str__(self) -> str:
        """Return the URI without options: for people, and for Spark."""
        return f"{self.remote.uri}/{self.path}".rstrip("/")

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel to another process of this machine as the URI, and the way to the JVM that serves it."""
        files = self.remote.filesystem
        connection = files.connection if isinstance(files, HadoopFiles) else None
        return _again, (self.remote.given, self.path, connection)

    def as_uri(self) -> str:
        """Return the URI under which Spark knows it: Hadoop calls S3 `s3a`, Databricks its mounts `dbfs`."""
        if self.by_hadoop:
            return str(self)
        scheme, rest = str(self).split(":", 1)
        if scheme == "file" and (mounted := name_for_spark(rest.removeprefix("//"))):
            return mounted
        return f"{FOR_SPARK.get(scheme, scheme)}:{rest}"

    def exists(self) -> bool:
        """Whether there is a file or folder."""
        return bool(self._info().type != pafs.FileType.NotFound)

    def is_dir(self) -> bool:
        """Whether there is a folder."""
        return bool(self._info().type == pafs.FileType.Directory)

    def is_file(self) -> bool:
        """Whether there is a file."""
        return bool(self._info().is_file)

    def read_bytes(self) -> bytes:
        """Return a whole file. FileNotFoundError."""
        return self.remote.read(self.key)

    def read_text(self, encoding: str) -> str:
        """Return a whole file as text."""
        return self.read_bytes().decode(encoding)

    def stat(self) -> RemoteStat:
        """Return size and age. FileNotFoundError."""
        info = self.known or self._info()
        if info.type == pafs.FileType.NotFound:
            raise FileNotFoundError(2, "No such file", str(self))
        return RemoteStat(info.size or 0, info.mtime_ns or 0)

    def glob(self, pattern: str, /) -> list[Self]:
        """Return what matches `pattern`, whose parts match one name each."""
        parts = pattern.split("/")
        found = self._listed(deep=len(parts) > 1)
        return [place for names, place in found if _matches(names, parts)]

    def rglob(self, pattern: str, /) -> list[Self]:
        """Return what matches at any depth."""
        return [place for names, place in self._listed(deep=True) if fnmatchcase(names[-1], pattern)]

    def iterdir(self) -> list[Self]:
        """Return what lies in this folder; nothing where there is none."""
        return [place for _, place in self._listed(deep=False)]

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 - as pathlib has it
        """Make the folder and its parents."""
        self.remote.make_folder(self.key)

    def put(self, content: bytes) -> None:
        """Make this file hold `content`: the old bytes or the new ones, never a mixture."""
        self.remote.put(self.key, content)

    def unlink(self, missing_ok: bool = False) -> None:  # noqa: FBT001, FBT002 - as pathlib has it
        """Delete a file. FileNotFoundError unless `missing_ok`."""
        with suppress(*([FileNotFoundError] if missing_ok else [])):
            self.remote.delete(self.key)

    def clear(self) -> None:
        """Delete the folder and all that is in it."""
        self.remote.delete_folder(self.key)

    def _info(self) -> Any:  # noqa: ANN401 - pyarrow has no types
        names = [self.key] if self.remote.whole_puts else [self.key, beside(self.key, NEXT)]
        found = self.remote.infos(names)
        return next((info for info in found if info.type != pafs.FileType.NotFound), found[0])

    def _listed(self, *, deep: bool) -> Iterable[tuple[list[str], Self]]:
        """Yield what lies below: its names from here on, and itself. What waits stands for what is gone."""
        infos = {info.path: info for info in self.remote.listed(self.key, deep=deep)}
        for path, info in list(infos.items()):
            folder, _, name = path.rpartition("/")
            if name.endswith(NEXT) and (hidden := _HIDDEN.fullmatch(name)):
                infos.pop(path)
                infos.setdefault(f"{folder}/{hidden['name']}", info)
        for path, info in infos.items():
            below = path.removeprefix(self.key).strip("/")
            yield below.split("/"), type(self)(self.remote, f"{self.path}/{below}".strip("/"), info)


def require_no_secret(uri: str) -> None:
    """Raise FolderError for a URI that could not be printed."""
    parts = urlsplit(uri)
    if parts.password is not None or (parts.username and parts.scheme.startswith("s3")):
        raise FolderError(
            f"storage.path is a {parts.scheme} URI with credentials: it would be printed. Give them to the "
            "driver as its platform does (environment, instance profile, service account)."
        )
    secret = next((name for name in parse_qs(parts.query) if name in SECRET_OPTIONS), None)
    if secret is not None:
        raise FolderError(f"storage.path has the secret {secret!r} among its options: it would be printed.")


def without_questions(uri: str) -> str:
    """Return a URI that opens without a question to a store: S3 is asked for a region that is not given."""
    parts = urlsplit(uri)
    if SCHEMES.get(parts.scheme, parts.scheme) != "s3" or LOCATED & parse_qs(parts.query).keys():
        return uri
    return f"{uri}{'&' if parts.query else '?'}region=us-east-1"


def remote_at(uri: str) -> RemotePlace:
    """Return the folder that `uri` names. Raises FolderError; StoreError where S3 is asked for a region."""
    require_no_secret(uri)
    parts = urlsplit(uri)
    plain = uri.partition("?")[0].rstrip("/")
    files = None if parts.query else _by_hadoop(uri, plain, parts.scheme)
    if files is not None:
        return RemotePlace(Remote(files, files.base, plain, uri, files.replacing))
    try:
        filesystem, base = _opened(uri, SCHEMES.get(parts.scheme, parts.scheme))
    except (pa.ArrowException, ValueError, OSError, NotImplementedError) as error:
        if NO_NETWORK in str(error):
            why = f"{plain} does not answer: {first_line(error).rstrip('.')}"
            raise StoreError(
                f"{why}. A region in the URI, as ?region=eu-central-1, saves this question."
            ) from None
        raise FolderError(
            f"{plain} cannot be used: {first_line(error).rstrip('.')}.{_advice(parts.scheme)}"
        ) from error
    replacing = BY_ARROW.get(filesystem.type_name, Replacing.ASIDE)
    return RemotePlace(Remote(filesystem, base.rstrip("/"), plain, uri, replacing))


def _by_hadoop(uri: str, plain: str, scheme: str) -> HadoopFiles | None:
    try:
        return hadoop_files(uri, scheme, jvm_for(scheme))
    except OSError as error:
        raise UnreachableError(plain, error) from error


def _opened(uri: str, scheme: str) -> tuple[Any, str]:
    known = scheme + uri[uri.index(":") :]
    if scheme == "s3":
        # One request for a small file instead of three; older versions of pyarrow do not know it.
        with suppress(pa.ArrowInvalid):
            found: tuple[Any, str] = pafs.FileSystem.from_uri(
                known + ("&" if "?" in uri else "?") + "allow_delayed_open=true"
            )
            return found
    opened: tuple[Any, str] = pafs.FileSystem.from_uri(known)
    return opened


def _advice(scheme: str) -> str:
    if scheme in {"hdfs", "viewfs"}:
        return (
            " HDFS is served by Spark's JVM: install rebalance-monitor[spark] and Java 17, and set "
            "HADOOP_CONF_DIR. Without Spark: Hadoop's native library and classes (HADOOP_HOME, "
            'CLASSPATH="$(hadoop classpath --glob)").'
        )
    if scheme in {"dbfs", "wasb", "wasbs"}:
        return (
            " Only a platform's Spark has this file system: run there, or name its mount, as file:///dbfs/…, "
            "or a volume."
        )
    return ""


def _matches(names: list[str], parts: list[str]) -> bool:
    return len(names) == len(parts) and all(map(fnmatchcase, names, parts))


def _again(given: str, path: str, connection: tuple[int, str] | None) -> RemotePlace:
    if connection is None:
        return RemotePlace(remote_at(given).remote, path)
    files = hadoop_files(given, urlsplit(given).scheme, connected(connection))
    if files is None:
        raise FolderError(f"{given} is not served by the JVM any more.")
    return RemotePlace(Remote(files, files.base, given.rstrip("/"), given, files.replacing), path)
