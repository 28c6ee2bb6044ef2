"""The manifest: a checkpoint is resumed only on what it was made of."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_monitor.checkpoints.state.manifest import (
    Identity,
    Manifest,
    ManifestError,
    mismatches,
    next_generation,
    read_manifest,
    require_match,
    write_manifest,
)
from rebalance_monitor.checkpoints.state.versions import OLDEST_READ

if TYPE_CHECKING:
    from pathlib import Path

IDENTITY = Identity(
    product_version="0.1.0",
    codec_version=OLDEST_READ,
    buckets=1,
    lanes=2,
    shards=50,
    topic_id="topic-a",
    cluster_id="cluster-a",
)


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(st.integers(0, 99), st.integers(0, 2**62)), st.integers(1, 1000))
def test_a_manifest_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, catching_up: dict[int, int], generation: int
) -> None:
    path = tmp_path_factory.mktemp("job") / "manifest.json"
    manifest = Manifest(IDENTITY, generation, catching_up)
    write_manifest(path, manifest)
    assert read_manifest(path) == manifest


def test_a_new_job_has_no_manifest(tmp_path: Path) -> None:
    assert read_manifest(tmp_path / "manifest.json") is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format":1}', '{"format":2,"identity":{}}'])
def test_a_manifest_that_cannot_be_read_names_the_way_out(tmp_path: Path, text: str) -> None:
    path = tmp_path / "manifest.json"
    path.write_text(text)
    with pytest.raises(ManifestError, match="--rebuild-state"):
        read_manifest(path)


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (
            replace(IDENTITY, cluster_id="cluster-b"),
            "cluster cluster-a.*correct kafka.bootstrap_servers",
        ),
        (replace(IDENTITY, topic_id="topic-b"), "recreated"),
        (replace(IDENTITY, shards=25), "partitions are never removed.*correct kafka.bootstrap_servers"),
        (replace(IDENTITY, buckets=4), "the configuration asks for 4. `buckets: 1` continues"),
        (
            replace(IDENTITY, lanes=8),
            'would have 8 .*partitions: "2"` under `spark:` continues',
        ),
        (
            replace(IDENTITY, codec_version=OLDEST_READ - 1),
            "newer version .*version that wrote it can continue",
        ),
    ],
)
def test_each_mismatch_shows_how_to_go_on_and_how_to_give_the_state_up(
    found: Identity, sentence: str
) -> None:
    assert len(mismatches(IDENTITY, found)) == 1
    with pytest.raises(ManifestError, match=sentence) as raised:
        require_match(IDENTITY, found)
    assert "--rebuild-state" in str(raised.value)


@pytest.mark.parametrize(
    "found",
    [
        IDENTITY,
        replace(IDENTITY, shards=60),
        replace(IDENTITY, product_version="9.9.9", codec_version=OLDEST_READ + 1),
        replace(IDENTITY, topic_id="", cluster_id=""),
    ],
)
def test_growth_an_upgrade_and_a_silent_broker_are_no_mismatch(found: Identity) -> None:
    require_match(IDENTITY, found)


def test_a_state_too_old_to_be_read_is_a_mismatch() -> None:
    old = replace(IDENTITY, codec_version=OLDEST_READ - 1)
    assert mismatches(IDENTITY, IDENTITY) == []
    with pytest.raises(ManifestError, match="older version of the product"):
        require_match(old, IDENTITY)


def test_all_mismatches_are_reported_at_once() -> None:
    other = replace(IDENTITY, cluster_id="cluster-b", topic_id="topic-b", buckets=2)
    assert len(mismatches(IDENTITY, other)) == 3


def test_a_rebuild_never_meets_an_old_checkpoint(tmp_path: Path) -> None:
    assert next_generation(tmp_path) == 1
    for name in ("1", "7", "notes"):
        (tmp_path / name).mkdir()
    assert next_generation(tmp_path) == 8


def test_growth_keeps_the_history_of_the_partitions_there_were() -> None:
    grown = Manifest(IDENTITY, 1, {0: 10}).grown(replace(IDENTITY, shards=51))
    assert grown.catching_up == {0: 10}
    assert grown.identity.shards == 51
