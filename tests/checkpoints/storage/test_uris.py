"""URIs: distinguished from paths, refused without showing a secret, given to Spark under Hadoop's names."""

from __future__ import annotations

from pathlib import Path

import pytest

from rebalance_monitor.checkpoints.storage.files import FolderError
from rebalance_monitor.checkpoints.storage.places import is_elsewhere, is_uri, place_at
from rebalance_monitor.engine.storage import storage_at


def test_a_uri_is_distinguished_from_a_path() -> None:
    for uri in (
        "s3://bucket/x",
        "hdfs://name/x",
        "file:///x",
        "abfss://c@a.dfs.core.windows.net/x",
        "dbfs:/x",
    ):
        assert is_uri(uri)
        assert is_elsewhere(uri) is not uri.startswith("file:")
    for path in ("data", "/data", "./a:b", "C", "s3", "a/b:/c"):
        assert not is_uri(path)
        assert not is_elsewhere(path)
        assert place_at(path) == Path(path)


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("s3://key:secret@bucket/x", "credentials"),
        ("s3://key@bucket/x", "credentials"),
        ("abfss://c@a.dfs.core.windows.net/x?account_key=secret", "account_key"),
        ("dbfs:/x", "file:///dbfs"),
        ("ftp://host/x", "cannot be used"),
        ("s3://bucket/x?regoin=eu", "cannot be used"),
    ],
)
def test_a_uri_that_cannot_be_used_is_refused_and_no_secret_is_reported(uri: str, says: str) -> None:
    with pytest.raises(FolderError, match=says) as refused:
        place_at(uri)
    assert "secret" not in str(refused.value).replace("the secret 'account_key'", "")


def test_spark_is_given_the_name_that_hadoop_knows(s3: str, tmp_path: Path) -> None:
    bucket = s3.partition("?")[0]
    assert storage_at(s3).location(3) == f"{bucket.replace('s3:', 's3a:')}/state/3"
    assert str(storage_at(s3).ledger) == f"{bucket}/ledger"
    assert storage_at(s3.replace("s3:", "s3a:")).location(3) == f"{bucket.replace('s3:', 's3a:')}/state/3"
    assert storage_at(tmp_path.as_uri()).location(1) == f"{tmp_path.as_uri()}/state/1"
    assert storage_at(str(tmp_path)).location(1) == f"{tmp_path}/state/1"


def test_a_checkpoint_elsewhere_lies_in_a_folder_of_the_storages_own(tmp_path: Path) -> None:
    storage = storage_at(str(tmp_path), "hdfs://name/x/")
    storage.states.mkdir()
    storage.name.write_text("m7f3a00000001")
    assert storage.location(2) == "hdfs://name/x/m7f3a00000001/2"


def test_a_path_that_no_system_call_takes_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    for path, says in ((tmp_path / "a" / "x", "symbolic links"), (tmp_path / ("a" * 256), "too long")):
        with pytest.raises(FolderError, match=says) as refused:
            storage_at(path)
        assert str(path) in str(refused.value)
    (tmp_path / "file").touch()
    assert storage_at(tmp_path / "file" / "x").root == tmp_path / "file" / "x"
