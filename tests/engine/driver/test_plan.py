"""Which state a start resumes or begins."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import pytest

from rebalance_monitor.checkpoints.errors import UnreachableError
from rebalance_monitor.checkpoints.ledger import Ledger, LedgerError, Snapshot
from rebalance_monitor.checkpoints.state.changelog import Begun, Changelog
from rebalance_monitor.checkpoints.state.inspection import ELSEWHERE
from rebalance_monitor.checkpoints.state.manifest import ManifestError, read_manifest, write_manifest
from rebalance_monitor.checkpoints.state.spark_log import SparkLogError
from rebalance_monitor.checkpoints.storage.hadoop_jvm import use_jvm
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.config.model import Settings, Source
from rebalance_monitor.config.model import Storage as StorageSettings
from rebalance_monitor.engine.driver.job import Options
from rebalance_monitor.engine.driver.plan import (
    StatePlan,
    limit_of,
    outlook,
    record_rebuild,
    take_up,
)
from rebalance_monitor.engine.embedded.engine import EmbeddedKind
from rebalance_monitor.engine.storage import Storage
from rebalance_monitor.engine.topic.leader_epochs import Kept, Mark, Marks, read_marks, write_marks
from rebalance_monitor.lab.cluster.node import free_ports
from rebalance_monitor.streaming.job.job import SparkKind
from tests.engine.support.states import FACTS, plan, planned

if TYPE_CHECKING:
    from pathlib import Path

    from rebalance_monitor.engine.topic.facts import TopicFacts

Engine = Literal["spark", "embedded"]

# A file system of a platform's Spark, which nothing here knows: whether a JVM runs or not, nobody is asked.
ONLY_SPARKS = "dbfs:/monitor"
RETRIES = "ipc.client.connect.max.retries"
WORD = Settings(storage=StorageSettings(rebuild="2026-11-22"))


def test_a_first_start_takes_what_there_is_for_history(tmp_path: Path) -> None:
    found = plan(tmp_path)
    assert found.manifest.catching_up == {0: 10, 2: 3}
    assert found.checkpoint == tmp_path / "state" / "1"
    assert read_manifest(Storage(tmp_path).manifest) == found.manifest


def test_a_second_start_has_the_history_of_the_first(tmp_path: Path) -> None:
    first = plan(tmp_path)
    assert plan(tmp_path, replace(FACTS, ends={0: 99, 1: 99, 2: 99})) == first


def test_new_partitions_are_live_from_the_start(tmp_path: Path) -> None:
    plan(tmp_path)
    found = plan(tmp_path, replace(FACTS, begins={**FACTS.begins, 3: 0}, ends={**FACTS.ends, 3: 50}))
    assert found.manifest.identity.shards == 4
    assert 3 not in found.manifest.catching_up


def test_partitions_that_had_no_leader_at_the_first_start_are_history_once_they_have_one(
    tmp_path: Path,
) -> None:
    away = replace(FACTS, begins={0: 0}, ends={0: 10}, unled=(1, 2))
    assert plan(tmp_path, away).manifest.unled == (1, 2)
    assert plan(tmp_path, away).manifest.catching_up == {0: 10}
    # It is the same whether the job is started again, or runs on.
    later = replace(FACTS, ends={0: 99, 1: 7, 2: 5})
    shutil.copytree(tmp_path, runs := tmp_path.with_name("runs"))
    assert take_up(Storage(runs), later) == plan(tmp_path, later).manifest.catching_up == {0: 10, 2: 5}
    assert plan(tmp_path, replace(FACTS, ends={0: 99, 1: 99, 2: 99})).manifest.catching_up == {0: 10, 2: 5}


def test_a_rebuild_begins_a_new_folder_with_the_history_of_now(tmp_path: Path) -> None:
    plan(tmp_path)
    found = plan(tmp_path, replace(FACTS, ends={0: 20, 1: 7, 2: 3}), rebuild=True)
    assert found.checkpoint == tmp_path / "state" / "2"
    assert found.manifest.catching_up == {0: 20, 2: 3}
    assert plan(tmp_path).checkpoint == found.checkpoint


def test_a_new_word_asks_for_one_rebuild_and_the_same_word_for_none(tmp_path: Path) -> None:
    june, july = (Settings(storage=StorageSettings(rebuild=word)) for word in ("june", "july"))
    first = plan(tmp_path, settings=june)
    assert (first.rebuilt, plan(tmp_path, settings=june)) == ("", first)
    second = plan(tmp_path, settings=july)
    assert (second.rebuilt, second.manifest.generation) == ("asked for by storage.rebuild (july)", 2)
    record_rebuild(Storage(tmp_path), second)
    for settings in (july, Settings()):
        found = plan(tmp_path, settings=settings)
        assert (found.rebuilt, found.manifest.generation) == ("", 2)


def test_a_state_begun_without_a_word_is_rebuilt_by_the_first_one(tmp_path: Path) -> None:
    plan(tmp_path)
    assert plan(tmp_path).manifest.generation == 1
    assert plan(tmp_path, settings=WORD).manifest.generation == 2


def test_a_manifest_that_cannot_be_read_is_refused_but_for_a_word_or_a_flag(tmp_path: Path) -> None:
    plan(tmp_path)
    Storage(tmp_path).manifest.write_text("{")
    with pytest.raises(ManifestError, match=r"damaged.*--rebuild-state.*storage\.rebuild"):
        plan(tmp_path)
    found = plan(tmp_path, settings=WORD)
    assert "could not be read" in found.rebuilt
    assert plan(tmp_path, settings=WORD).manifest.generation == found.manifest.generation == 2


def test_a_state_whose_manifest_is_gone_is_built_anew_with_that_reason(tmp_path: Path) -> None:
    assert plan(tmp_path).rebuilt == ""
    Storage(tmp_path).manifest.unlink()
    found = plan(tmp_path)
    assert (found.rebuilt, found.manifest.generation) == ("its manifest was gone", 2)


def test_a_state_is_new_until_its_first_batch_was_begun(tmp_path: Path) -> None:
    """A process that died before that has left nothing that holds what was open."""
    first = plan(tmp_path)
    assert (first.is_new, plan(tmp_path).is_new) == (True, True)
    offsets = first.checkpoint / "offsets"
    offsets.mkdir()
    (offsets / "0").write_text("v1\n{}\n{}\n")
    assert not plan(tmp_path).is_new
    assert plan(tmp_path, rebuild=True).is_new


def test_a_checkpoint_that_was_deleted_is_rebuilt_with_the_history_of_now(tmp_path: Path) -> None:
    plan(tmp_path).checkpoint.rmdir()
    found = plan(tmp_path, replace(FACTS, ends={0: 20, 1: 7, 2: 3}))
    assert found.checkpoint.is_dir()
    assert found.manifest.catching_up == {0: 20, 2: 3}


def test_a_recreated_topic_is_refused_and_a_rebuild_takes_it(tmp_path: Path) -> None:
    plan(tmp_path)
    other = replace(FACTS, id="another")
    with pytest.raises(ManifestError, match="recreated"):
        plan(tmp_path, other)
    assert plan(tmp_path, other, rebuild=True).manifest.identity.topic_id == "another"


def committed(found: StatePlan, ends: dict[int, int], batch: int = 4) -> None:
    """Leave what Spark leaves of a batch that has read up to `ends`."""
    metadata = '{"batchWatermarkMs":0,"batchTimestampMs":1795000000000,"conf":{}}'
    offsets = json.dumps({FACTS.name: {str(partition): end for partition, end in ends.items()}})
    for name, text in (("offsets", f"v1\n{metadata}\n{offsets}\n12"), ("commits", "v1\n{}")):
        (found.checkpoint / name).mkdir(exist_ok=True)
        (found.checkpoint / name / str(batch)).write_text(text)
    for lane in range(found.manifest.identity.lanes):
        (place := found.checkpoint / "state" / "0" / str(lane)).mkdir(parents=True, exist_ok=True)
        (place / f"{batch + 1}.zip").write_text("state")
    ledger = Ledger(Storage(found.checkpoint.parents[1]).ledger)
    ledger.commit(ledger.load())


def test_a_ledger_that_is_gone_is_refused_because_all_that_was_written_would_count_for_nothing(
    tmp_path: Path,
) -> None:
    committed(plan(tmp_path), {0: 4})
    (Storage(tmp_path).ledger / "snapshot.json").unlink()
    for rebuild in (False, True):
        with pytest.raises(LedgerError, match=r"is gone, although batch 4 of .*state/1 was committed"):
            plan(tmp_path, rebuild=rebuild)


def test_records_removed_while_the_job_was_away_are_counted(tmp_path: Path) -> None:
    committed(plan(tmp_path), {0: 4, 1: 7, 2: 3})
    found = plan(tmp_path, replace(FACTS, begins={0: 9, 1: 7, 2: 0}))
    assert (found.lost, found.rebuilt) == ({0: 5}, "")


def test_a_topic_that_was_cut_off_below_what_was_read_is_refused(tmp_path: Path) -> None:
    committed(plan(tmp_path), {0: 10, 1: 7, 2: 3})
    with pytest.raises(ManifestError, match=r"2 \(read up to 3, kept to 1\).*--rebuild-state"):
        plan(tmp_path, replace(FACTS, ends={0: 10, 1: 7, 2: 1}))
    assert plan(tmp_path, rebuild=True).rebuilt == "asked for by --rebuild-state"


def test_a_checkpoint_that_only_spark_reaches_is_resumed_and_its_cut_off_topic_refused(
    tmp_path: Path,
) -> None:
    storage = Storage(tmp_path, ONLY_SPARKS)
    first = planned(storage)
    assert first.location == f"{ONLY_SPARKS}/{storage.name.read_text()}/1"
    assert planned(storage) == first
    told = Ledger(storage.ledger).load().on_topic("topic", "cluster").after("q", 0, 0, {0: 9})
    Ledger(storage.ledger).commit(replace(told, generation=1))
    again = planned(storage)
    assert (again.read, again.is_new) == ({0: 10}, False)
    later = planned(storage, replace(FACTS, begins={0: 13, 1: 7, 2: 0}, ends={0: 20, 1: 7, 2: 3}))
    assert later.lost == {0: 3}
    with pytest.raises(ManifestError, match=r"0 \(read up to 10, kept to 8\)"):
        planned(storage, replace(FACTS, ends={0: 8, 1: 7, 2: 3}))


def test_the_log_of_a_checkpoint_elsewhere_is_read_where_it_can_be_reached(tmp_path: Path) -> None:
    storage = Storage(tmp_path / "job", (tmp_path / "spark").as_uri())
    first = planned(storage)
    written = tmp_path / "spark" / storage.name.read_text() / "1"
    written.mkdir(parents=True)
    committed(replace(first, checkpoint=written), {0: 4, 1: 7, 2: 3})
    again = planned(storage)
    assert (again.read, again.is_new) == ({0: 4, 1: 7, 2: 3}, False)


@pytest.mark.spark
def test_a_checkpoint_that_hadoop_does_not_reach_is_refused_by_name_new_or_resumed(
    tmp_path: Path,
    hadoop_jvm: Any,  # noqa: ANN401 - of a JVM
) -> None:
    use_jvm(lambda _scheme: hadoop_jvm)
    # No other test has this JVM ask over a network.
    hadoop_jvm.org.apache.spark.deploy.SparkHadoopUtil.get().conf().set(RETRIES, "0")
    unreachable = f"hdfs://127.0.0.1:{free_ports(1)[0]}/monitor"
    storage = Storage(tmp_path, unreachable)
    with pytest.raises(UnreachableError, match=rf"^{unreachable}/m\w+/1 cannot be reached.*refused"):
        planned(storage)
    assert not storage.manifest.exists()

    there = Storage(tmp_path, (tmp_path / "spark").as_uri())
    stored = planned(there).manifest
    write_manifest(there.manifest, replace(stored, elsewhere=storage.elsewhere))
    with pytest.raises(UnreachableError, match=rf"^{unreachable}/m\w+/1 cannot be reached.*refused"):
        planned(storage)
    assert read_manifest(there.manifest) == replace(stored, elsewhere=storage.elsewhere)


def test_a_checkpoint_that_is_to_lie_elsewhere_from_now_on_is_rebuilt_there(tmp_path: Path) -> None:
    plan(tmp_path)
    away = Storage(tmp_path, (tmp_path / "away").as_uri())
    moved = planned(away)
    assert (moved.rebuilt, moved.manifest.generation) == ("storage.checkpoint was changed", 2)
    # Whatever the configuration says later, it is known where Spark keeps this one.
    assert (moved.checkpoint / ELSEWHERE).read_text(encoding="utf-8") == moved.location
    assert plan(tmp_path).manifest.generation == 3


def test_a_checkpoint_that_was_emptied_under_a_ledger_that_knows_its_batches_is_rebuilt(
    tmp_path: Path,
) -> None:
    plan(tmp_path)
    ledger = Ledger(Storage(tmp_path).ledger)
    ledger.commit(replace(ledger.load(), generation=1))
    assert plan(tmp_path).rebuilt == "its checkpoint was empty"


def test_the_next_process_publishes_a_rebuild_that_the_dead_one_had_not(
    tmp_path: Path,
) -> None:
    plan(tmp_path)
    assert plan(tmp_path, settings=WORD).rebuilt == plan(tmp_path, settings=WORD).rebuilt != ""
    record_rebuild(Storage(tmp_path), plan(tmp_path, settings=WORD))
    assert plan(tmp_path, settings=WORD).rebuilt == ""


@pytest.mark.parametrize("name", ["", "../x", "ab c"])
def test_a_damaged_name_of_a_checkpoint_is_refused(tmp_path: Path, name: str) -> None:
    storage = Storage(tmp_path, ONLY_SPARKS)
    planned(storage)
    storage.name.write_text(name)
    with pytest.raises(ConfigError, match="no name of a checkpoint"):
        planned(storage)


def test_a_storage_made_anew_meets_no_checkpoint_of_the_one_before(tmp_path: Path) -> None:
    places = [planned(Storage(tmp_path / name, ONLY_SPARKS)).location for name in ("before", "after")]
    assert places[0] != places[1]


def test_a_damaged_log_of_sparks_is_refused_by_name(tmp_path: Path) -> None:
    found = plan(tmp_path)
    committed(found, {0: 1})
    (found.checkpoint / "offsets" / "4").write_text("v2\nx")
    with pytest.raises(SparkLogError, match=r"offsets/4 cannot be read(?s:.*)--rebuild-state"):
        plan(tmp_path)


def test_only_a_state_that_was_given_up_counts_as_rebuilt(tmp_path: Path) -> None:
    assert plan(tmp_path / "new", rebuild=True).rebuilt == ""
    plan(tmp_path / "gone").checkpoint.rmdir()
    assert plan(tmp_path / "gone").rebuilt == "its checkpoint was gone"


def test_a_start_at_the_end_has_no_history(tmp_path: Path) -> None:
    found = plan(tmp_path, settings=Settings(source=Source(starting="latest")))
    assert found.manifest.catching_up == {}


def test_a_start_that_goes_on_after_its_history_is_not_limited(tmp_path: Path) -> None:
    settings = Settings(source=Source(max_offsets_per_trigger=5))
    assert limit_of(plan(tmp_path), settings) == 5
    committed(plan(tmp_path), {0: 9, 1: 7, 2: 3})
    assert limit_of(plan(tmp_path), settings) == 5
    committed(plan(tmp_path), {0: 10, 1: 7, 2: 3}, batch=5)
    assert limit_of(plan(tmp_path, replace(FACTS, ends={0: 900, 1: 70, 2: 30})), settings) is None


def test_a_state_that_read_what_leaders_have_lost_is_refused_and_a_new_one_is_not(
    tmp_path: Path,
) -> None:
    plan(tmp_path)
    lost = replace(FACTS, ends={0: 99, 1: 7, 2: 3}, kept={0: Kept(10, 4)})
    with pytest.raises(ManifestError, match=r"0 \(read up to 10, kept to 4\).*--rebuild-state"):
        plan(tmp_path, lost)
    write_marks(Storage(tmp_path).leaders, Marks("topic", {0: Mark(1, 10)}))
    assert plan(tmp_path, lost, rebuild=True).manifest.catching_up == {0: 99, 2: 3}
    assert read_marks(Storage(tmp_path).leaders) == Marks()


@pytest.mark.parametrize(
    "now", [replace(FACTS, ends={0: 8, 1: 7, 2: 3}), replace(FACTS, kept={0: Kept(10, 8)})]
)
def test_a_rebuilt_state_is_resumed_though_the_one_before_had_read_further(
    tmp_path: Path, now: TopicFacts
) -> None:
    plan(tmp_path)
    ledger = Ledger(Storage(tmp_path).ledger)
    before = ledger.load().on_topic("topic", "cluster")
    ledger.commit(before.after("query", 1, 5, {0: 9, 2: 2}))
    with pytest.raises(ManifestError, match="kept to 8"):
        plan(tmp_path, now)
    rebuilt = plan(tmp_path, now, rebuild=True)
    assert Ledger(Storage(tmp_path).ledger).load().positions == {0: 7, 2: 2}
    # Killed before its first batch: what leaders have lost is marked no more.
    assert plan(tmp_path, replace(now, kept={})).manifest == rebuilt.manifest


@pytest.mark.parametrize(("first", "then"), [("spark", "embedded"), ("embedded", "spark")])
def test_the_state_of_another_engine_is_refused_with_both_ways_out(
    tmp_path: Path, first: Engine, then: Engine
) -> None:
    planned(Storage(tmp_path), settings=Settings(engine=first))
    said = rf"written by the {first} engine.* `engine: {first}` continues with it\..*--rebuild-state"
    with pytest.raises(ManifestError, match=said):
        planned(Storage(tmp_path), settings=Settings(engine=then))
    rebuilt = planned(Storage(tmp_path), settings=Settings(engine=then), rebuild=True)
    assert (rebuilt.manifest.identity.engine, rebuilt.manifest.generation) == (then, 2)


def begun_by(found: StatePlan, engine: Engine, batch: int) -> str:
    """Leave in a state what an engine leaves of a batch that it began; return its query's name."""
    if engine == "embedded":
        log = Changelog(found.checkpoint, FACTS.name)
        log.begin(Begun(batch, 1_000, limited=False, until={0: 10}))
        return log.query
    (found.checkpoint / "metadata").write_text('{"id":"this-query"}')
    (found.checkpoint / "offsets").mkdir()
    (found.checkpoint / "offsets" / str(batch)).write_text('v1\n{"batchTimestampMs":1}\n{}\n7')
    return "this-query"


@pytest.mark.parametrize("engine", ["spark", "embedded"])
def test_a_state_of_another_job_is_refused_by_name_and_that_of_this_one_is_not(
    tmp_path: Path, engine: Engine
) -> None:
    settings = Settings(engine=engine)
    query = begun_by(plan(tmp_path, settings=settings), engine, 3)
    ledger = Ledger(Storage(tmp_path).ledger)
    known = Snapshot(topic_id="topic", cluster_id="cluster", generation=1)
    for name in (query, f"{query}.1"):
        ledger.commit(replace(known, batches={name: 3}))
        assert plan(tmp_path, settings=settings).manifest.generation == 1
    ledger.commit(replace(known, batches={"another": 3}))
    with pytest.raises(SparkLogError, match=r"state/1 holds the state of another job(?s:.*)--rebuild-state"):
        plan(tmp_path, settings=settings)


@pytest.mark.parametrize("engine", ["spark", "embedded"])
def test_a_log_that_lost_batches_which_were_published_is_named_and_gone_on_with(
    tmp_path: Path, engine: Engine
) -> None:
    settings, storage = Settings(engine=engine), Storage(tmp_path)
    query = begun_by(plan(tmp_path, settings=settings), engine, 3)
    kind = (EmbeddedKind if engine == "embedded" else SparkKind)(settings, Options())
    for published, told in ((3, 0), (9, 1)):
        snapshot = Snapshot(batches={query: published}, topic_id="topic", cluster_id="cluster", generation=1)
        Ledger(storage.ledger).commit(snapshot)
        found = outlook(storage, settings, kind)
        assert [f"ends with batch 3, and batch {published} was published" in line for line in found] == [
            True
        ] * told
        assert plan(tmp_path, settings=settings).manifest.generation == 1
