import json
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_monitor.cluster.captures.capture import CaptureError, Metadata, read_capture, write_capture
from rebalance_monitor.cluster.captures.captured import METADATA_KEY
from rebalance_monitor.cluster.captures.copying import Lacks, Rising, _lacks
from rebalance_monitor.cluster.clients.reader import RECORD_SCHEMA, Reading
from rebalance_monitor.cluster.errors import BrokerUnreachableError
from rebalance_monitor.cluster.requests.topology import Topic
from rebalance_monitor.coordinator.lag import ends
from rebalance_monitor.coordinator.lag.ends import EndsSample
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.engine.replay.replaying import replay_capture

if TYPE_CHECKING:
    from rebalance_monitor.cluster.clients.admin import ClusterAdmin

blobs = st.none() | st.binary(max_size=40)
stamps = st.integers(min_value=0, max_value=4_000_000_000_000)
record = st.tuples(blobs, blobs, st.integers(0, 4), stamps, st.integers(-1, 1))
Record = tuple[bytes | None, bytes | None, int, int, int]


def numbered(records: list[Record]) -> list[dict[str, object]]:
    """Give each record the next offset of its partition."""
    bounds: dict[int, int] = {}
    rows: list[dict[str, object]] = []
    for key, value, partition, stamp, kind in records:
        offset = bounds.get(partition, 0)
        bounds[partition] = offset + 1
        rows.append(
            {
                "key": key,
                "value": value,
                "topic": "__consumer_offsets",
                "partition": partition,
                "offset": offset,
                "timestamp": stamp,
                "timestampType": kind,
            }
        )
    return rows


def batch_of(rows: list[dict[str, object]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)


def cut(rows: list[dict[str, object]], size: int) -> list[pa.RecordBatch]:
    return [batch_of(rows[at : at + size]) for at in range(0, len(rows), size)]


def place(row: dict[str, object]) -> tuple[object, object]:
    return row["partition"], row["offset"]


def plain(batches: list[pa.RecordBatch]) -> list[dict[str, object]]:
    return pa.Table.from_batches(batches, RECORD_SCHEMA).to_pylist()


@settings(deadline=None)
@given(st.lists(record, max_size=60), st.integers(1, 20))
def test_a_capture_gives_back_what_was_written_sorted_by_partition_and_offset(
    records: list[Record], size: int
) -> None:
    rows = numbered(records)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "capture"
        write_capture(path, cut(rows, size), Metadata())
        found = read_capture(path)
        assert found.rows == len(rows)
        assert plain(list(found.batches())) == plain([batch_of(sorted(rows, key=place))])


@settings(deadline=None)
@given(st.lists(record, max_size=60), st.integers(1, 20), st.sampled_from(["folder", "bare"]))
def test_partitions_can_be_read_side_by_side_from_a_capture_and_from_an_unsorted_bare_file(
    records: list[Record], size: int, layout: str
) -> None:
    rows = numbered(records)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "capture"
        if layout == "bare":
            pq.write_table(pa.Table.from_batches(cut(rows, size), RECORD_SCHEMA), path, row_group_size=7)
        else:
            write_capture(path, cut(rows, size), Metadata())
        with read_capture(path).by_partition(batch_rows=5) as streams:
            found = {partition: plain(list(stream)) for partition, stream in streams.items()}
        wanted = plain([batch_of(sorted(rows, key=place))])
        assert [row for part in sorted(found) for row in found[part]] == wanted
        assert all({row["partition"] for row in part} <= {p} for p, part in found.items())


def test_metadata_sightings_and_ends_come_back(tmp_path: Path) -> None:
    metadata = Metadata(
        cluster_id="c",
        topic_id="t",
        partitions=3,
        end_offsets={0: 9, 2: 7},
        leader_epochs={0: 4},
        broker_version="4.1",
        captured_at=17,
    )
    lines = ['{"at":1,"groups":[],"leaders":[],"brokers":[[1,true]]}', '{"at":2}']
    whole = EndsSample(
        1, 2, {"a": (1, -1)}, {"a": (0, 0)}, {"a": "id"}, frozenset({"b"}), "why", stable={"a": (1, 0)}
    )
    samples = [whole, EndsSample(3, 4)]
    write_capture(tmp_path / "c", [], metadata, lines, map(ends.to_json, samples))
    found = read_capture(tmp_path / "c")
    assert found.metadata == metadata
    assert list(found.sample_lines()) == lines
    assert [ends.from_json(line) for line in found.ends_lines()] == samples


def test_spark_reads_the_columns_of_its_own_kafka_source(tmp_path: Path) -> None:
    write_capture(tmp_path / "c", [batch_of(numbered([(b"k", None, 0, 1, 0)]))], Metadata())
    schema = pq.read_schema(tmp_path / "c" / "records.parquet")
    assert schema.remove_metadata() == RECORD_SCHEMA
    assert schema.field("timestamp").type == pa.timestamp("ms", tz="UTC")


def test_a_bare_file_with_other_widths_and_without_topic_is_taken(tmp_path: Path) -> None:
    table = pa.table(
        {
            "key": pa.array([b"k"], pa.large_binary()),
            "value": pa.array([None], pa.binary()),
            "partition": pa.array([3], pa.int64()),
            "offset": pa.array([8], pa.int32()),
            "timestamp": pa.array([1_500_999], pa.timestamp("us")),
        }
    )
    pq.write_table(table, tmp_path / "x.parquet")
    found = read_capture(tmp_path / "x.parquet")
    (row,) = plain(list(found.batches()))
    assert found.metadata == Metadata()
    assert [*found.sample_lines(), *found.ends_lines()] == []
    assert (row["partition"], row["offset"], row["topic"]) == (3, 8, "__consumer_offsets")
    assert row["timestamp"].timestamp() == 1.5  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (Path.is_file, "does not exist"),
        (Path.mkdir, "has no records.parquet"),
        (lambda path: path.write_bytes(b"PAR1 not really"), "cannot be read as Parquet.*Make one with"),
        (lambda path: pq.write_table(pa.table({"key": [b"k"], "value": [b"v"]}), path), "lacks the columns"),
    ],
)
def test_what_is_no_capture_is_refused_with_a_sentence(tmp_path: Path, make: object, sentence: str) -> None:
    path = tmp_path / "x"
    make(path)  # type: ignore[operator]
    with pytest.raises(CaptureError, match=sentence) as told:
        read_capture(path)
    assert str(path) in str(told.value)


def test_a_bare_file_with_a_column_twice_is_refused_with_a_sentence(tmp_path: Path) -> None:
    written = pa.Table.from_batches([batch_of(numbered([(b"k", None, 0, 1, 0)]))])
    for name in ("key", "partition", "topic"):
        twice = pa.table([*written.columns, written[name]], names=[*written.column_names, name])
        pq.write_table(twice, tmp_path / "x.parquet")
        with pytest.raises(CaptureError, match=f"has the columns {name} more than once"):
            read_capture(tmp_path / "x.parquet")


@pytest.mark.parametrize("partition", ["a", datetime(2026, 1, 1, tzinfo=UTC), {"a": 1}, 1.5])
def test_partitions_that_are_no_numbers_are_damage_however_the_file_is_read(
    tmp_path: Path, partition: object
) -> None:
    written = pa.Table.from_batches([batch_of(numbered([(b"k", None, 0, 1, 0)]))])
    place = written.column_names.index("partition")
    pq.write_table(written.set_column(place, "partition", pa.array([partition])), tmp_path / "x.parquet")
    capture = read_capture(tmp_path / "x.parquet")
    with pytest.raises(CaptureError, match="is damaged"):
        list(capture.batches())
    with pytest.raises(CaptureError, match="is damaged"), capture.by_partition():
        pass


def test_damage_inside_the_file_is_a_sentence_too(tmp_path: Path) -> None:
    rows = numbered([(bytes([i % 251]) * 200, None, 0, i, 0) for i in range(2000)])
    write_capture(tmp_path / "c", [batch_of(rows)], Metadata())
    file = tmp_path / "c" / "records.parquet"
    content = bytearray(file.read_bytes())
    content[100 : len(content) // 2] = bytes(len(content) // 2 - 100)
    file.write_bytes(content)
    with pytest.raises(CaptureError, match="is damaged"):
        list(read_capture(tmp_path / "c").batches())


def test_a_newer_format_is_refused_by_number(tmp_path: Path) -> None:
    write_capture(tmp_path / "c", [], Metadata(format=99))
    with pytest.raises(CaptureError, match="format 99, this version knows 1"):
        read_capture(tmp_path / "c")


def test_metadata_of_a_later_version_may_have_more_keys() -> None:
    text = json.dumps({**json.loads(Metadata(cluster_id="c").to_json()), "novelty": 1})
    assert Metadata.from_json(text) == Metadata(cluster_id="c")


@pytest.mark.parametrize("line", ["nonsense", "[]", '{"groups":[]}', '{"at":null}', '{"at":1e999}'])
def test_a_damaged_sighting_is_named_by_its_line(tmp_path: Path, line: str) -> None:
    write_capture(tmp_path / "c", [], Metadata(), ['{"at":1}', line])
    with pytest.raises(CaptureError, match="line 2"):
        list(read_capture(tmp_path / "c").sample_lines())


def test_a_sighting_of_a_group_in_other_words_than_texts_ends_the_replay_with_a_sentence(
    tmp_path: Path,
) -> None:
    line = '{"at":1,"groups":[["g","Empty",[1],""]],"leaders":[],"brokers":[]}'
    write_capture(tmp_path / "c", [], Metadata(), [line])
    with pytest.raises(CaptureError, match=r"sightings\.jsonl, line 1"):
        list(replay_capture(tmp_path / "c", DetectionSettings()))


def test_offsets_that_go_back_within_a_partition_are_refused(tmp_path: Path) -> None:
    rows = numbered([(b"a", None, 0, 1, 0)] * 3)
    pq.write_table(pa.Table.from_batches([batch_of([rows[0], rows[2], rows[1]])]), tmp_path / "x.parquet")
    with (
        read_capture(tmp_path / "x.parquet").by_partition() as streams,
        pytest.raises(CaptureError, match="not in offset order in partition 0: sort it first"),
    ):
        list(streams[0])


def test_samples_come_by_time_however_they_lie_in_the_file(tmp_path: Path) -> None:
    lines = [f'{{"at":{at},"number":{number}}}' for number, at in enumerate((5, 3, 3, 9, 4))]
    write_capture(tmp_path / "c", [], Metadata(), lines, lines)
    capture = read_capture(tmp_path / "c")
    ordered = [lines[number] for number in (1, 2, 4, 0, 3)]
    assert list(capture.sample_lines()) == list(capture.ends_lines()) == ordered


@pytest.mark.parametrize("line", ["[]", '{"partitions":"50"}', '{"broker_values":{"max_message_bytes":"x"}}'])
def test_metadata_of_other_types_are_damaged(tmp_path: Path, line: str) -> None:
    schema = RECORD_SCHEMA.with_metadata({METADATA_KEY: line.encode()})
    pq.write_table(schema.empty_table(), tmp_path / "x.parquet")
    with pytest.raises(CaptureError, match="has damaged metadata"):
        read_capture(tmp_path / "x.parquet")


@pytest.mark.parametrize(
    "line",
    [
        b'{"at":"3"}',
        b"\xff\xfe",
        b'{"at":3,"partial":"\xff"}',
        b'{"asked_at":1,"at":3,"latest":{"t":[99999999999999999999]}}',
    ],
)
def test_a_damaged_sample_of_ends_ends_the_replay_with_a_sentence(tmp_path: Path, line: bytes) -> None:
    write_capture(tmp_path / "c", [], Metadata(), ends=['{"asked_at":1,"at":2}'])
    with (tmp_path / "c" / "ends.jsonl").open("ab") as file:
        file.write(line + b"\n")
    with pytest.raises(CaptureError, match=r"ends\.jsonl"):
        list(replay_capture(tmp_path / "c", DetectionSettings()))


def test_records_are_taken_up_to_the_first_whose_offset_does_not_rise() -> None:
    rows = numbered([(b"k", None, partition, 1, 0) for partition in (0, 1, 0, 1)])
    rising, again = Rising(), numbered([(b"other", None, 1, 1, 0)])
    assert rising.take(batch_of(rows)).num_rows == len(rows)
    more = [{**rows[2], "offset": 2}, *again, {**rows[2], "offset": 3}]
    assert rising.take(batch_of(more)).num_rows == 1
    assert rising.began_anew == 1
    assert rising.ends(Reading({0: 0, 1: 0, 2: 7})) == {0: 3, 1: 2, 2: 7}


class Away:
    """Brokers that answer nothing any more."""

    def topic(self, name: str) -> Topic:
        raise BrokerUnreachableError(f"No broker says anything of {name}.", "Wait.")

    def end_offsets(self, name: str, *, partly: bool) -> dict[int, int]:
        raise BrokerUnreachableError(f"No broker says where {name} ends ({partly}).", "Wait.")


@pytest.mark.parametrize("until", [None, {0: 9}])
def test_that_offsets_began_anew_is_said_also_where_no_broker_answers_at_the_end(
    until: dict[int, int] | None,
) -> None:
    rising, row = Rising(), numbered([(b"k", None, 0, 1, 0)])
    for _ in range(2):
        rising.take(batch_of(row))
    found = _lacks(cast("ClusterAdmin", Away()), Topic("t", "id", ()), Reading({0: 0}, until), rising, {})
    assert found == Lacks(began_anew=0, other=True)


def test_repeated_offsets_within_a_partition_are_refused(tmp_path: Path) -> None:
    rows = numbered([(b"a", None, 0, 1, 0)]) * 2
    write_capture(tmp_path / "c", [batch_of(rows)], Metadata())
    with (
        read_capture(tmp_path / "c").by_partition() as streams,
        pytest.raises(CaptureError, match="has offset 0 of partition 0 twice"),
    ):
        list(streams[0])


def test_a_disk_that_is_full_is_named_by_the_capture_and_nothing_half_written_remains(tmp_path: Path) -> None:
    code = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from rebalance_monitor.cluster.captures.capture import CaptureWriter\n"
        # More than a file may have: what a full disk gives, as another number.
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000))\n"
        "with CaptureWriter(Path(sys.argv[1])) as writer:\n"
        "    writer.add_samples(['x' * 100] * 1_000)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "capture")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == f"OSError: [Errno 27] File too large: '{tmp_path / 'capture'}'"
    assert list(tmp_path.iterdir()) == []


def test_a_taken_path_is_left_alone_and_nothing_half_written_remains(tmp_path: Path) -> None:
    taken = tmp_path / "c"
    taken.mkdir()
    (taken / "mine").write_text("x")
    with pytest.raises(CaptureError, match="exists already"):
        write_capture(taken, [], Metadata())
    with pytest.raises(ZeroDivisionError):
        write_capture(tmp_path / "d", (batch_of([]) for _ in range(1 // 0)), Metadata())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c"]
    assert (taken / "mine").read_text() == "x"
