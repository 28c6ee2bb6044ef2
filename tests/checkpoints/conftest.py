"""A file system of Hadoop for the whole session: ViewFS over HDFS."""

from __future__ import annotations

import pytest

from tests.checkpoints.stores import StoreOfHadoop


@pytest.fixture(scope="session")
def viewfs_store(hdfs_store: StoreOfHadoop) -> StoreOfHadoop:
    """The same by ViewFS."""
    return StoreOfHadoop(hdfs_store.jvm, "viewfs:///monitors")
