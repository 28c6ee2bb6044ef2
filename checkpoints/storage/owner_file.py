"""The file that names the owner of a remote folder, and how the owner changes.

S3, GCS and Azure take a put under a condition: that nothing is there yet, or still the version that was read.
Of two that write at once the store refuses one. pyarrow offers no such put; obstore (the extra `objects`)
does, and so does the client of Hadoop's S3A. By Hadoop HDFS, ABFS and Google's connector refuse one of two
that create the same file: there each version is created once (`Numbered`). Where obstore is missing, or
gets no access where pyarrow does, where a server ignores the condition, and on all else, a claim is written,
and read back after a pause.
"""

from __future__ import annotations

import json
import secrets
from contextlib import suppress
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qs, urlsplit

import structlog
from pyarrow.fs import FileSelector

from rebalance_monitor.checkpoints.errors import StoreError, TakenError, first_line
from rebalance_monitor.checkpoints.storage.hadoop import HadoopFiles, NotFilledError
from rebalance_monitor.checkpoints.storage.remote import beside
from rebalance_monitor.checkpoints.storage.s3a_object import of_s3a
from rebalance_monitor.checkpoints.storage.sealed import parsed

if TYPE_CHECKING:
    from rebalance_monitor.checkpoints.storage.remote_place import RemotePlace

log = structlog.get_logger()
Version = Any
"""What the store calls one version of the file; None: that there is none."""

REQUEST_S = 10
STORES = {"s3": "S3Store", "gcs": "GCSStore", "abfs": "AzureStore"}
"""pyarrow's name of a file system -> obstore's of its store."""


class OwnerFile(Protocol):
    """Blocks for the network; raises OSError. `settles`: a claim is to be read back after a pause."""

    settles: bool

    def read(self) -> tuple[bytes | None, Version]:
        """Return the file's content, None if the folder has no owner, and its version."""

    def write(self, content: bytes, after: Version) -> Version:
        """Replace the version `after`, and return the new one. Raises TakenError where it is gone."""

    def give_up(self, after: Version) -> None:
        """Free the folder, which the version `after` gives an owner."""


class ReadBack:
    """A file on any file system: the last writer owns it."""

    settles = True

    def __init__(self, place: RemotePlace) -> None:
        self._place = place

    def read(self) -> tuple[bytes | None, Version]:
        """See `OwnerFile`."""
        try:
            return self._place.read_bytes(), None
        except FileNotFoundError:
            return None, None

    def write(self, content: bytes, after: Version) -> Version:  # noqa: ARG002 - as `OwnerFile` has it
        """See `OwnerFile`. Around the fences: they ask whether this very file is fresh."""
        self._place.remote.put_unfenced(self._place.key, content)

    def give_up(self, after: Version) -> None:  # noqa: ARG002 - as `OwnerFile` has it
        """See `OwnerFile`."""
        self._place.unlink(missing_ok=True)


class Conditional:
    """An object of a store that takes puts under a condition."""

    settles = False

    def __init__(self, store: Any, name: str) -> None:  # noqa: ANN401 - obstore's own union of stores
        self._store = store
        self._name = name

    def read(self) -> tuple[bytes | None, Version]:
        """See `OwnerFile`."""
        import obstore  # noqa: PLC0415 - an optional dependency

        try:
            found = obstore.get(self._store, self._name)
            return bytes(found.bytes()), _version(found.meta)
        except FileNotFoundError:
            return None, None
        except obstore.exceptions.BaseError as error:
            raise StoreError(first_line(error)) from error

    def write(self, content: bytes, after: Version) -> Version:
        """See `OwnerFile`."""
        import obstore  # noqa: PLC0415 - an optional dependency
        from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError  # noqa: PLC0415 - as above

        try:
            return _version(
                obstore.put(self._store, self._name, content, mode="create" if after is None else after)
            )
        except (AlreadyExistsError, PreconditionError) as error:
            raise TakenError from error
        except FileNotFoundError as error:
            # The version that was to be replaced, or else the bucket.
            raise StoreError(first_line(error)) if after is None else TakenError from error
        except BaseError as error:
            raise StoreError(first_line(error)) from error

    def give_up(self, after: Version) -> None:  # noqa: ARG002 - as `OwnerFile` has it
        """See `OwnerFile`."""
        import obstore  # noqa: PLC0415 - an optional dependency

        try:
            with suppress(FileNotFoundError):
                obstore.delete(self._store, self._name)
        except obstore.exceptions.BaseError as error:
            raise StoreError(first_line(error)) from error


EMPTY = GIVEN_UP = b"{}"
NUMBERS, NUMBER = ".numbers", "number"


class Numbered:
    """A file and, beside it, its versions under growing numbers: for services that create a file once only.

    A version is created under the number after the one that was read: of two that do so at once the service
    refuses one. The highest number counts. It is never deleted, nor is the one before it, so a number that is
    created late, after others have come and gone, finds a higher one and is taken back. The file itself
    repeats the highest for a process that reaches the folder without Hadoop. What such a process writes there
    has no number, and is newer.
    """

    settles = False

    def __init__(self, place: RemotePlace, files: HadoopFiles) -> None:
        self._place, self._files = place, files
        self.folder = beside(place.key, NUMBERS)
        self._unfilled: int | None = None

    def read(self) -> tuple[bytes | None, Version]:
        """See `OwnerFile`."""
        return self._place.remote.tried(self._read)

    def write(self, content: bytes, after: Version) -> Version:
        """See `OwnerFile`. Around the fences: they ask whether this very file is fresh."""
        number = self._create(content, after)
        numbered = {**json.loads(content), NUMBER: number}
        self._place.remote.put_unfenced(self._place.key, json.dumps(numbered).encode())
        return number

    def give_up(self, after: Version) -> None:
        """See `OwnerFile`."""
        self._place.unlink(missing_ok=True)
        with suppress(TakenError):
            self._create(GIVEN_UP, after)

    def _create(self, content: bytes, after: Version) -> int:
        """Create the version after that one. Raises TakenError where it has a successor, OSError."""
        number = (after or 0) + 1
        if not self._place.remote.whole_puts:
            self._place.remote.make_folder(self._place.parent.key)
        try:
            self._files.create_file(self._key(number), content)
        except OSError as error:
            # Where objects are put whole this may be how another's is found, in the end.
            if isinstance(error, NotFilledError) and not self._place.remote.whole_puts:
                self._unfilled = number
            elif number in self._numbers():
                raise TakenError from error
            raise
        here = self._numbers()
        outdated = here[:-2] if here[-1:] == [number] else [number]
        for old in outdated:
            with suppress(OSError):
                self._files.delete_file(self._key(old))
        if number in outdated:
            raise TakenError
        return number

    def _read(self) -> tuple[bytes | None, Version]:
        if self._unfilled is not None:
            with suppress(FileNotFoundError):
                self._files.delete_file(self._key(self._unfilled))
            self._unfilled = None
        here = self._numbers()
        with suppress(FileNotFoundError):
            content = self._files.open_input_file(self._place.key).read()
            if not here or not _has_number(content):
                return content, here[-1] if here else None
        if not here:
            return None, None
        try:
            content = self._files.open_input_file(self._key(here[-1])).read()
        except FileNotFoundError as error:
            raise StoreError(f"{self._place} was replaced while it was read") from error
        return (None if content == GIVEN_UP else content), here[-1]

    def _numbers(self) -> list[int]:
        """Return the numbers that are there, the lowest first."""
        found = self._files.get_file_info(FileSelector(self.folder, allow_not_found=True))
        return sorted(int(one.base_name) for one in found if one.base_name.isdigit())

    def _key(self, number: int) -> str:
        return f"{self.folder}/{number:020d}"


def _has_number(content: bytes) -> bool:
    try:
        return NUMBER in parsed(content)
    except (ValueError, TypeError):
        return False


def owner_file(place: RemotePlace) -> OwnerFile:
    """Return the file at `place`, with conditions where its store takes them from this process."""
    trial = place.parent / f".{secrets.token_hex(8)}.trial"
    try:
        found, tried = _conditional(place), _conditional(trial)
        if found is None or tried is None:
            return ReadBack(place)
        if _keeps_conditions(tried, trial):
            return found
        why = "this store ignores the condition of a put"
    except OSError as error:
        why = str(error)
    log.warning("the storage's owner is checked by reading back, not by conditional writes", why=why)
    return ReadBack(place)


def _conditional(place: RemotePlace) -> OwnerFile | None:
    """Return the file as its store puts it under conditions, None where it does not."""
    files = place.remote.filesystem
    if isinstance(files, HadoopFiles):
        return of_s3a(files, place.key) or (Numbered(place, files) if files.creates_once else None)
    if files.type_name not in STORES:
        return None
    if find_spec("obstore") is None:
        log.warning(
            "the storage's owner is checked by reading back, not by conditional writes: install "
            "rebalance-monitor[objects]"
        )
        return None
    return Conditional(_store(place, files.type_name), place.key.partition("/")[2])


def _keeps_conditions(tried: OwnerFile, trial: RemotePlace) -> bool:
    """Whether the store refuses to put what is there already: some servers of S3's protocol do not."""
    tried.write(EMPTY, None)
    try:
        tried.write(EMPTY, None)
    except TakenError:
        return True
    finally:
        trial.remote.filesystem.delete_file(trial.key)
        if isinstance(tried, Numbered):
            trial.remote.filesystem.delete_dir(tried.folder)
    return False


def _store(place: RemotePlace, kind: str) -> Any:  # noqa: ANN401 - obstore's own union of stores
    from obstore import store as stores  # noqa: PLC0415 - an optional dependency

    bucket, given = place.key.partition("/")[0], place.remote.given
    options = {name: values[0] for name, values in parse_qs(urlsplit(given).query).items()}
    config: dict[str, Any] = {}
    if kind == "s3":
        config = {"region": place.remote.filesystem.region}
    elif kind == "abfs":
        account = urlsplit(given).hostname or ""
        config = {"account_name": account.partition(".")[0]}
    scheme = options.get("scheme", "https")
    if endpoint := options.get("endpoint_override"):
        config["endpoint"] = f"{scheme}://{endpoint}"
    return getattr(stores, STORES[kind])(
        bucket,
        config=config,
        client_options={"allow_http": scheme == "http", "timeout": timedelta(seconds=REQUEST_S)},
        retry_config={"max_retries": 2, "retry_timeout": timedelta(seconds=REQUEST_S)},
    )


def _version(found: Any) -> Version:  # noqa: ANN401 - obstore's ObjectMeta or PutResult
    return {name: found[name] for name in ("e_tag", "version") if found.get(name)}
