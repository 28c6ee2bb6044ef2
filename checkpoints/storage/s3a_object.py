"""An S3 object that is put under a condition, by the client that Hadoop's S3A has open in the driver's JVM.

The claim of a folder (owner_file.py) so has S3A's own credentials, endpoint and encryption. Hadoop's
interface knows no conditions before 3.4.2: the headers `If-None-Match` and `If-Match` are set on a request
that S3A has made. Refuses Amazon's first SDK (Hadoop 3.3), and another class that is called s3a: there
`of_s3a` gives None.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from rebalance_monitor.checkpoints.errors import StoreError, TakenError, first_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from rebalance_monitor.checkpoints.storage.hadoop import HadoopFiles

T = TypeVar("T")
NOT_FOUND, TAKEN = 404, frozenset({409, 412})
WHY = "the owner of the storage"
"""The reason that S3A logs when its client is requested."""


def of_s3a(files: HadoopFiles, key: str) -> S3aObject | None:
    """Return the object at `key`, None where the file system is not S3A of Amazon's second SDK."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 - comes with pyspark

    try:
        found = S3aObject(files, key)
        found.request(b"", None)
    except (Py4JError, TypeError, AttributeError):
        # So py4j says that there is no such class or method.
        return None
    return found


class S3aObject:
    """See `owner_file.OwnerFile`; a version is an entity tag."""

    settles = False

    def __init__(self, files: HadoopFiles, key: str) -> None:
        self._files = files
        self._jvm, system = files.java
        self._client = system.getS3AInternals().getAmazonS3Client(WHY)
        self._requests, self._key = system.getRequestFactory(), key.strip("/")

    def read(self) -> tuple[bytes | None, str | None]:
        """See `OwnerFile`."""
        try:
            return self._asked(self._read)
        except _RefusedError as error:
            if error.status == NOT_FOUND:
                return None, None
            raise

    def write(self, content: bytes, after: str | None) -> str:
        """See `OwnerFile`."""
        try:
            return self._asked(partial(self._write, content, after))
        except _RefusedError as error:
            # Where nothing was there to be replaced, it is the bucket that is not found.
            if error.status in TAKEN or (error.status == NOT_FOUND and after is not None):
                raise TakenError from error
            raise

    def give_up(self, after: str | None) -> None:  # noqa: ARG002 - as `OwnerFile` has it
        """See `OwnerFile`."""
        with suppress(FileNotFoundError):
            self._files.delete_file(f"/{self._key}")

    def request(self, content: bytes, after: str | None) -> Any:  # noqa: ANN401 - of a JVM
        """Return S3A's request of a put on the condition that `after` is still there, or that nothing is."""
        options = self._jvm.org.apache.hadoop.fs.s3a.impl.PutObjectOptions.keepingDirs()
        given = self._requests.newPutObjectRequestBuilder(self._key, options, len(content), False)  # noqa: FBT003 - Java's signature
        condition = ("If-None-Match", "*") if after is None else ("If-Match", after)
        header = self._jvm.software.amazon.awssdk.awscore.AwsRequestOverrideConfiguration.builder()
        return given.overrideConfiguration(header.putHeader(*condition).build()).build()

    def _read(self) -> tuple[bytes, str]:
        found = self._client.getObjectAsBytes(self._requests.newGetObjectRequestBuilder(self._key).build())
        return bytes(found.asByteArray()), str(found.response().eTag())

    def _write(self, content: bytes, after: str | None) -> str:
        body = self._jvm.software.amazon.awssdk.core.sync.RequestBody.fromBytes(content)
        return str(self._client.putObject(self.request(content, after), body).eTag())

    @staticmethod
    def _asked(ask: Callable[[], T]) -> T:
        from py4j.protocol import Py4JError, Py4JJavaError  # noqa: PLC0415 - comes with pyspark

        try:
            return ask()
        except Py4JJavaError as error:
            java = error.java_exception
            status = 0
            with suppress(Py4JError):
                # No such method: the network failed.
                status = java.statusCode()
            raise _RefusedError(str(java.getMessage()).partition("\n")[0], status) from error
        except Py4JError as error:
            raise StoreError(first_line(error)) from error


class _RefusedError(StoreError):
    """status: of the store's answer, 0 where it gave none."""

    def __init__(self, what: str, status: int) -> None:
        super().__init__(what)
        self.status = status
