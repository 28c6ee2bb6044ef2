"""Stores of platforms by the Hadoop of a JVM, on servers of this machine.

S3A on moto's S3, Google's connector on fake-gcs-server, ABFS on Azurite. ABFS speaks Azurite's protocol, that
of blobs, from 3.4.2 on.
"""

from __future__ import annotations

import os
import socket
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import httpx

from rebalance_monitor.cluster.jars.gateway import java_gateway
from rebalance_monitor.cluster.jars.ivy import Coordinate, cache_folder, resolve
from rebalance_monitor.lab.cluster.node import free_ports, wait_until
from tests.checkpoints.stores import BUCKET, StoreOfHadoop
from tests.programs import installed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

HADOOP_AWS = Coordinate("org.apache.hadoop", "hadoop-aws", "3.4.1")
AWS = "software.amazon.awssdk"
# What hadoop-aws uses of Amazon's SDK, whose bundle has 600 MB. Hadoop's own 2.24.6 has no transfer manager.
OF_AWS = [
    Coordinate(AWS, name, "2.24.5")
    for name in ("s3", "sts", "s3-transfer-manager", "apache-client", "netty-nio-client")
]
GCS_CONNECTOR = Coordinate("com.google.cloud.bigdataoss", "gcs-connector", "hadoop3-2.2.26")
AZURE = Coordinate("org.apache.hadoop", "hadoop-azure", "3.4.2")
ACCOUNT = "devstoreaccount1"
# Of every Azurite, by its documentation.
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
SPARKS_OWN = "org.apache.hadoop"


def s3a_jars() -> list[Path]:
    """Hadoop's S3 client and Amazon's."""
    folder = cache_folder() / "jars"
    hadoops = resolve(
        [HADOOP_AWS], folder / f"hadoop-aws-{HADOOP_AWS.version}-without-sdk", excluded=(AWS, "org.wildfly")
    )
    amazons = resolve(OF_AWS, folder / f"awssdk-{OF_AWS[0].version}-alone", excluded=("org.slf4j",))
    return [*hadoops, *amazons]


def gcs_jars() -> list[Path]:
    """Google's connector."""
    name = f"{GCS_CONNECTOR.name}-{GCS_CONNECTOR.version}"
    return resolve([GCS_CONNECTOR], cache_folder() / "jars" / name, excluded=(SPARKS_OWN,))


def azure_jars() -> list[Path]:
    """Hadoop's client of Azure."""
    return resolve([AZURE], cache_folder() / "jars" / f"{AZURE.name}-{AZURE.version}")


@contextmanager
def jvm_with(jars: Sequence[Path], settings: Mapping[str, str]) -> Iterator[object]:
    """A JVM whose Hadoop is configured so."""
    # Google's connector sends pieces of 64 MB.
    with java_gateway(jars, ["-Xmx512m"]) as jvm:
        for name, value in settings.items():
            jvm.java.lang.System.setProperty(f"spark.hadoop.{name}", value)
        yield jvm


def s3a_settings(uri: str) -> dict[str, str]:
    """Hadoop's settings for the server of `s3_server`."""
    options = {name: values[0] for name, values in parse_qs(urlsplit(uri).query).items()}
    return {
        "fs.s3a.endpoint": f"{options['scheme']}://{options['endpoint_override']}",
        "fs.s3a.endpoint.region": options["region"],
        "fs.s3a.path.style.access": "true",
        "fs.s3a.access.key": os.environ["AWS_ACCESS_KEY_ID"],
        "fs.s3a.secret.key": os.environ["AWS_SECRET_ACCESS_KEY"],
    }


@contextmanager
def s3a_store(uri: str) -> Iterator[StoreOfHadoop]:
    """The bucket of `s3_server`, by Hadoop."""
    with jvm_with(s3a_jars(), s3a_settings(uri)) as jvm:
        yield StoreOfHadoop(jvm, f"s3a://{BUCKET}")


@contextmanager
def gs_store() -> Iterator[StoreOfHadoop]:
    """A bucket of fake-gcs-server, by Google's connector."""
    (port,) = free_ports(1)
    address = f"http://127.0.0.1:{port}"
    command = [installed("fake-gcs-server"), "-scheme", "http", "-host", "127.0.0.1", "-port", str(port)]
    command += ["-backend", "memory", "-external-url", address, "-log-level", "error"]
    with subprocess.Popen(command) as server:
        try:
            assert wait_until(lambda: _listens(port), 30)
            httpx.post(f"{address}/storage/v1/b?project=lab", json={"name": BUCKET}).raise_for_status()
            settings = {
                "fs.gs.storage.root.url": f"{address}/",
                "fs.gs.auth.service.account.enable": "false",
                "fs.gs.auth.null.enable": "true",
                "fs.gs.project.id": "lab",
                # In pieces the server forgets the condition of a put (fakestorage/upload.go).
                "fs.gs.outputstream.direct.upload.enable": "true",
            }
            with jvm_with(gcs_jars(), settings) as jvm:
                yield StoreOfHadoop(jvm, f"gs://{BUCKET}")
        finally:
            server.terminate()


@contextmanager
def abfs_store() -> Iterator[StoreOfHadoop]:
    """A container of Azurite, by ABFS."""
    (port,) = free_ports(1)
    command = [installed("azurite-blob"), "--blobHost", "127.0.0.1", "--blobPort", str(port)]
    command += ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent"]
    hosts = [f"{ACCOUNT}.{kind}.core.windows.net" for kind in ("dfs", "blob")]
    settings = {
        **{f"fs.azure.account.key.{host}": ACCOUNT_KEY for host in hosts},
        "fs.azure.account.auth.type": "SharedKey",
        "fs.azure.fns.account.service.type": "BLOB",
        "fs.azure.account.hns.enabled": "false",
        "fs.azure.always.use.https": "false",
        "fs.azure.abfs.endpoint": f"127.0.0.1:{port}",
        "fs.azure.createRemoteFileSystemDuringInitialization": "true",
    }
    with subprocess.Popen(command) as server:
        try:
            assert wait_until(lambda: _listens(port), 30)
            with jvm_with(azure_jars(), settings) as jvm:
                yield StoreOfHadoop(jvm, f"abfs://{BUCKET}@{ACCOUNT}.dfs.core.windows.net")
        finally:
            server.terminate()


def _listens(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0
