"""JKS and PKCS#12 stores as PEM files, which the clients outside Spark need: read by Java.

Kafka's Java client takes such a store with its type and password (`ssl.truststore.*`, `ssl.keystore.*`,
`ssl.key.password`); kafka-python and librdkafka take PEM. Java's KeyStore opens whatever the JVM knows. The
PEM file lies in memory where the system has that (`memfd_create`), because a key is in it, else in a folder
for this user alone that goes with the process. A store is read again once its file has changed.
"""

from __future__ import annotations

import atexit
import base64
import os
import shutil
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.cluster.jars.gateway import require_py4j, words_of
from rebalance_monitor.cluster.jars.shared_jvm import SHARED_JVM, class_named
from rebalance_monitor.config.kafka.values import is_pem

if TYPE_CHECKING:
    from collections.abc import Mapping

STORES = {"truststore": "ssl.ca.location", "keystore": "ssl.certificate.location"}
"""Java's store -> the property with a PEM file that stands in its place for the other clients."""
DEFAULT = "JKS"
KEY, CERTIFICATE = "PRIVATE KEY", "CERTIFICATE"


@dataclass(frozen=True, slots=True)
class _Store:
    """One store; `version`: changes with the file."""

    location: str
    kind: str
    password: str | None
    key_password: str | None
    has_key: bool
    version: tuple[int, int, int]


def with_pem(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties with PEM files in place of other stores. Raises ValueError: which, and why."""
    found = dict(properties)
    for store, replaced in STORES.items():
        location = properties.get(f"ssl.{store}.location")
        if location is None or replaced in properties or is_pem(properties, store):
            continue
        try:
            path = _pem(_store(properties, store, location))
        except _StoreError as error:
            what = f"the property `kafka: ssl.{store}.location` names {location}, {error}"
            raise ValueError(what) from None
        found |= {f"ssl.{store}.location": path, f"ssl.{store}.type": "PEM"}
        found.pop(f"ssl.{store}.password", None)
        if store == "keystore":
            found.pop("ssl.key.password", None)
    return found


class _StoreError(Exception):
    """What is wrong with a store, as the end of a sentence that has named it."""


def _store(properties: Mapping[str, str], store: str, location: str) -> _Store:
    try:
        status = Path(location).stat()
    except OSError as error:
        raise _StoreError(f"which cannot be read: {error.strerror}") from None
    password = properties.get(f"ssl.{store}.password")
    return _Store(
        location,
        properties.get(f"ssl.{store}.type", "").strip() or DEFAULT,
        password,
        properties.get("ssl.key.password", password),
        store == "keystore",
        (status.st_mtime_ns, status.st_size, status.st_ino),
    )


@cache
def _pem(store: _Store) -> str:
    try:
        require_py4j()
        jvm = SHARED_JVM.any()
    except DependencyError as error:
        raise _StoreError(f"a {store.kind} store, which Java reads: {error}") from None
    from py4j.protocol import Py4JError, Py4JJavaError  # noqa: PLC0415 - comes with pyspark

    try:
        return _kept(_text(jvm, store))
    except Py4JJavaError as error:
        secrets = {"password": store.password or "", "key password": store.key_password or ""}
        raise _StoreError(f"which Java cannot read: {words_of(error.java_exception, secrets)}") from None
    except Py4JError as error:
        raise _StoreError(f"which Java could not read: {error}") from None


def _text(jvm: Any, store: _Store) -> bytes:  # noqa: ANN401 - of a JVM
    """Return what the store holds, in PEM: one key with its chain, or the authorities."""
    opened = jvm.java.security.KeyStore.getInstance(store.kind)
    stream = jvm.java.io.FileInputStream(store.location)
    try:
        opened.load(stream, None if store.password is None else _characters(jvm, store.password))
    finally:
        stream.close()
    names = list(jvm.java.util.Collections.list(opened.aliases()))
    keys = [name for name in names if opened.isKeyEntry(name)]
    if not store.has_key:
        # As Java's trust manager: authorities, and the first certificate of each key.
        found = [opened.getCertificate(name) for name in names]
        if not found:
            raise _StoreError("which holds no certificate")
        return b"".join(_encoded(jvm, CERTIFICATE, one) for one in found)
    if len(keys) != 1:
        raise _StoreError(f"which holds {len(keys)} private keys: keep the one of the monitor")
    key = opened.getKey(keys[0], _characters(jvm, store.key_password or ""))
    chain = opened.getCertificateChain(keys[0])
    return _encoded(jvm, KEY, key) + b"".join(_encoded(jvm, CERTIFICATE, one) for one in chain)


def _characters(jvm: Any, text: str) -> Any:  # noqa: ANN401 - of a JVM
    """Return a text as Java's char[]: py4j gives texts as String alone."""
    return _called(jvm, "java.lang.String", "toCharArray", text)


def _encoded(jvm: Any, kind: str, item: Any) -> bytes:  # noqa: ANN401 - as above
    """Return a key (PKCS#8) or a certificate in PEM."""
    owner = "java.security.Key" if kind == KEY else "java.security.cert.Certificate"
    content = base64.encodebytes(_called(jvm, owner, "getEncoded", item)).decode()
    return f"-----BEGIN {kind}-----\n{content}-----END {kind}-----\n".encode()


def _called(jvm: Any, owner: str, name: str, item: Any) -> Any:  # noqa: ANN401 - as above
    """Call a method without arguments by a class that is public: that of a key is not."""
    methods = class_named(jvm, owner).getMethods()
    method = next(one for one in methods if one.getName() == name and not one.getParameterCount())
    nothing = jvm.java.lang.reflect.Array.newInstance(class_named(jvm, "java.lang.Object"), 0)
    return method.invoke(item, nothing)


def _kept(content: bytes) -> str:
    """Return the name of a file of this process with this content."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("rebalance-monitor")
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        return f"/proc/{os.getpid()}/fd/{descriptor}"
    folder = tempfile.mkdtemp(prefix="rebalance-monitor-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder) / "store.pem"
    path.touch(mode=0o600)
    path.write_bytes(content)
    return str(path)
