"""`rebalance-monitor explain GROUP`: everything that can be said of one group, and what to do about it.

From a broker only the group's own partition of the offsets topic is read, up to its end, and the brokers are
asked for its state and the topics' partition counts; with `--capture` nothing is asked. Compaction has taken
the older generations from a broker's topic, so there all of it counts as history. Exit code 1 where no record
of the group was found.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rebalance_monitor.cli.exit_codes import ExitCode
from rebalance_monitor.cli.options import config_options, identities_for, load_settings
from rebalance_monitor.cli.output import Form, output_option
from rebalance_monitor.cli.sources import Progress, capture_option, connection_options, span_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa

    from rebalance_monitor.cluster.clients.admin import ClusterAdmin
    from rebalance_monitor.config.model import Settings
    from rebalance_monitor.coordinator.explain.dossier import Dossier

MAX_TOPICS = 50
USUAL_PARTITIONS = 50


@click.command("explain")
@click.argument("group")
@capture_option
@config_options
@connection_options
@output_option(Form.TABLE, Form.TABLE, Form.WIDE, Form.JSON)
def command(
    *,
    group: str,
    capture: Path | None,
    config: Path | None,
    assignments: tuple[str, ...],
    connection: "Mapping[str, object]",
    output: Form,
) -> int:
    """Say all there is to know of GROUP: members, rebalances and their causes, spread, advice."""
    settings = load_settings(config, assignments, connection)
    found = _from_capture(group, capture, settings) if capture else _from_broker(group, settings)
    if found is None:
        where = str(capture) if capture else settings.kafka.bootstrap_servers
        click.echo(f"No record of the group {group!r} in {where}.", err=True)
        return ExitCode.PROBLEMS
    write(found, output)
    return ExitCode.FINE


def write(found: dict[str, Any], output: Form) -> None:
    """Write an explanation to stdout: one JSON document, or tables."""
    import json

    from rebalance_monitor.cli.explain_tables import write_tables
    from rebalance_monitor.engine.outputs.console import safe_json

    if output is Form.JSON:
        sys.stdout.write(safe_json(json.dumps(found, indent=2, ensure_ascii=False)) + "\n")
    else:
        write_tables(found, sys.stdout, wide=output is Form.WIDE)


def _from_capture(group: str, path: Path, settings: "Settings") -> dict[str, Any] | None:
    from rebalance_monitor.cluster.captures.capture import CaptureError, read_capture
    from rebalance_monitor.coordinator.explain.dossier import open_dossier
    from rebalance_monitor.coordinator.explain.explanation import Place, explain
    from rebalance_monitor.decoders import coordinator_partition
    from rebalance_monitor.engine.replay.replaying import replay_capture
    from rebalance_monitor.engine.settings import detection_settings, origins_line

    capture = read_capture(path)
    known = capture.metadata
    shards = known.partitions if known.partitions > 0 else USUAL_PARTITIONS
    shard = coordinator_partition(group, shards)
    if shard in known.unled:
        raise CaptureError(
            f"the capture {path} lacks partition {shard} of {known.topic}, which has the group {group!r}: no "
            "broker led it"
        )
    detection = detection_settings(settings.detection, known)
    dossier = open_dossier(group, shard, detection, known.cluster_id)
    with capture.by_partition() as streams:
        # Without metadata the number of partitions is a guess: the group is looked for everywhere.
        for partition in [shard] if known.partitions > 0 else sorted(streams):
            _read(dossier, streams.get(partition, ()))
    if any(capture.sample_lines()):
        # Samples say more of a departure, and of a join phase, than the group's own partition does.
        dossier.replace(replay_capture(path, detection))
    place = Place(shard, shards, leader_epoch=known.leader_epochs.get(shard, -1))
    if dossier.known is None:
        return None
    origin = origins_line(detection, settings.detection, dossier.known.group_type)
    return identities_for(settings).explanation(explain(dossier, place, detection) | {"values": origin})


def _from_broker(group: str, settings: "Settings") -> dict[str, Any] | None:
    from rebalance_monitor.cluster.captures.copying import Extent, open_reading
    from rebalance_monitor.cluster.clients.admin import ClusterAdmin
    from rebalance_monitor.cluster.clients.reader import read_records
    from rebalance_monitor.cluster.errors import DependencyError
    from rebalance_monitor.coordinator.explain.dossier import open_dossier
    from rebalance_monitor.coordinator.explain.explanation import explain
    from rebalance_monitor.decoders import coordinator_partition
    from rebalance_monitor.engine.settings import detection_settings, origins_line

    properties, name = settings.kafka.client_properties(), settings.source.topic
    with ClusterAdmin(properties) as admin:
        topic, reading = open_reading(admin, Extent(until_end=True, skip=settings.source.skip), name)
        shard = coordinator_partition(group, topic.partitions)
        if shard not in reading.start:
            raise DependencyError(
                f"No broker leads partition {shard} of {name}, so the group {group!r} has no coordinator: "
                "nothing can be read of it, and its members cannot commit.",
                "Start the brokers that hold the partition. `history` shows what the job found before.",
            )
        end = (reading.until or {}).get(shard, 0)
        reading.start, reading.until = {shard: reading.start[shard]}, {shard: end}
        detection = detection_settings(settings.detection, admin)
        dossier = open_dossier(group, shard, detection, admin.cluster_id(), end)
        progress = Progress("read", span_of(reading))
        for batch in read_records(properties, reading, name):
            _read(dossier, [batch])
            progress(reading.rows)
        progress.end()
        if dossier.known is None:
            return None
        place, partitions = _asked(admin, dossier, shard, topic.partitions, name)
        found = explain(dossier, place, detection, partitions)
        origin = origins_line(detection, settings.detection, dossier.known.group_type)
        return identities_for(settings).explanation(found | {"values": origin})


def _read(dossier: "Dossier", batches: "Iterable[pa.RecordBatch]") -> None:
    """Feed the records of one partition to the dossier."""
    from rebalance_monitor.decoders import decode_batch
    from rebalance_monitor.decoders.rows import made_rows

    for batch in batches:
        dossier.on_rows(made_rows(decode_batch(batch)))
    dossier.close()


def _asked(
    admin: "ClusterAdmin", dossier: "Dossier", shard: int, shards: int, name: str
) -> tuple[Any, dict[str, int]]:
    """Ask the brokers what records do not hold; what they refuse is left out."""
    from rebalance_monitor.cluster.errors import DependencyError
    from rebalance_monitor.coordinator.explain.explanation import Place

    topic = admin.topic(name)
    leader = next((one for one in topic.leaders if one.partition == shard), None) if topic else None
    broker, epoch = (leader.broker, leader.epoch) if leader else (-1, -1)
    state, partitions = "", {}
    try:
        if broker >= 0:
            state = _live_state(admin, dossier.group, broker)
        topics = sorted({topic for names in dossier.asked.values() for topic in names})
        partitions = {one: admin.partition_count(one) for one in topics[:MAX_TOPICS]}
    except DependencyError as error:
        click.echo(f"The brokers did not answer everything: {error}", err=True)
    return Place(shard, shards, broker, epoch, state), partitions


def _live_state(admin: "ClusterAdmin", group: str, broker: int) -> str:
    answer = next((one for one in admin.list_groups(broker) if one["group_id"] == group), {})
    return str(answer.get("group_state") or "")
