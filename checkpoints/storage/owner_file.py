"""The file that says who owns a remote folder, and how it changes hands.

S3, GCS and Azure take a put under a condition: that nothing is there yet, or still the version that was read.
Of two that write at once the store refuses one. pyarrow offers no such put; obstore (the extra `objects`)
does, and so does the client of Hadoop's S3A. Where obstore is missing, or gets no access where pyarrow does,
where a server ignores the condition, and on all else, a claim is written, and read back after a pause.
"""

from __future__ import annotations

import secrets
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qs, urlsplit

import structlog

from rebalance_monitor.checkpoints.errors import StoreError, TakenError, first_line
from rebalance_monitor.checkpoints.storage.hadoop import HadoopFiles
from rebalance_monitor.checkpoints.storage.s3a_object import of_s3a

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

    def read(self) -> tuple[bytes, Version] | None:
        """Return what the file holds, and its version; None where there is none."""

    def write(self, content: bytes, after: Version) -> Version:
        """Replace the version `after`, and return the new one. Raises TakenError where it is gone."""


class ReadBack:
    """A file on any file system: whoever writes last has it."""

    settles = True

    def __init__(self, place: RemotePlace) -> None:
        self._place = place

    def read(self) -> tuple[bytes, Version] | None:
        """See `OwnerFile`."""
        try:
            return self._place.read_bytes(), None
        except FileNotFoundError:
            return None

    def write(self, content: bytes, after: Version) -> Version:  # noqa: ARG002 - as `OwnerFile` has it
        """See `OwnerFile`. Around the fences: they ask whether this very file is fresh."""
        self._place.remote.put_unfenced(self._place.key, content)


class Conditional:
    """An object of a store that takes puts under a condition."""

    settles = False

    def __init__(self, store: Any, name: str) -> None:  # noqa: ANN401 - obstore's own union of stores
        self._store = store
        self._name = name

    def read(self) -> tuple[bytes, Version] | None:
        """See `OwnerFile`."""
        import obstore  # noqa: PLC0415 - an optional dependency

        try:
            found = obstore.get(self._store, self._name)
            return bytes(found.bytes()), _version(found.meta)
        except FileNotFoundError:
            return None
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
        return of_s3a(files, place.key)
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
    tried.write(b"", None)
    try:
        tried.write(b"", None)
    except TakenError:
        return True
    finally:
        trial.remote.filesystem.delete_file(trial.key)
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
