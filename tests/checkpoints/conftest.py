"""File systems of Hadoop for the whole session: ViewFS over HDFS, and stores of platforms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.checkpoints.stores import StoreOfHadoop

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def viewfs_store(hdfs_store: StoreOfHadoop) -> StoreOfHadoop:
    """The same by ViewFS."""
    return StoreOfHadoop(hdfs_store.jvm, "viewfs:///monitors")


@pytest.fixture(scope="session")
def s3a_store(s3: str) -> Iterator[StoreOfHadoop]:
    """The bucket of `s3` by Hadoop's S3 client."""
    pytest.importorskip("pyspark")
    from tests.checkpoints import platform_stores

    with platform_stores.s3a_store(s3) as store:
        yield store


@pytest.fixture(scope="session")
def gs_store() -> Iterator[StoreOfHadoop]:
    """A bucket of fake-gcs-server by Google's connector."""
    pytest.importorskip("pyspark")
    from tests.checkpoints import platform_stores

    with platform_stores.gs_store() as store:
        yield store


@pytest.fixture(scope="session")
def abfs_store() -> Iterator[StoreOfHadoop]:
    """A container of Azurite by Hadoop's client of Azure."""
    pytest.importorskip("pyspark")
    from tests.checkpoints import platform_stores

    with platform_stores.abfs_store() as store:
        yield store
