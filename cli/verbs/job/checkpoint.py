"""`rebalance-monitor checkpoint inspect|groups|verify|prune`: what a job's folder holds, and if it is sound.

`inspect` and `prune` need neither Spark nor a broker. `groups` and `verify` read Spark's state store, or the
changelog of the embedded engine, while the job is stopped or while it runs. `prune` removes state that a
rebuild has superseded, nothing else.
"""

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rebalance_monitor.cli.exit_codes import ExitCode
from rebalance_monitor.cli.options import config_options, load_settings, storage_of
from rebalance_monitor.cli.output import Form, output_option, write_rows
from rebalance_monitor.cli.sources import is_like
from rebalance_monitor.coordinator.findings.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rebalance_monitor.checkpoints.state.inspection import Generation, Inspection
    from rebalance_monitor.checkpoints.state.stored import StoredShard
    from rebalance_monitor.config.model import Settings
    from rebalance_monitor.engine.driver.plan import Kind
    from rebalance_monitor.engine.storage import Storage


@click.group()
def command() -> None:
    """Show, check and tidy the state of a job."""


@command.command()
@config_options
@output_option(Form.TABLE)
def inspect(config: Path | None, assignments: tuple[str, ...], output: Form) -> int:
    """Say what the state was made of and how far it has read; exit code 1 where something is wrong."""
    from rebalance_monitor.checkpoints.state.inspection import inspect as look

    settings = load_settings(config, assignments)
    storage = storage_of(settings)
    found = look(storage.manifest, storage.states)
    if output.is_table and found.manifest:
        identity = found.manifest.identity
        click.echo(f"cluster {identity.cluster_id or '-'}, topic id {identity.topic_id or '-'}")
        click.echo(f"{counted(identity.shards, 'partition')}, {counted(identity.buckets, 'bucket')} each")
        click.echo(f"state format {identity.codec_version}, last run by {identity.product_version}\n")
    write_rows([_row(generation, found) for generation in found.generations], output)
    for generation in found.generations:
        if generation.out_of_reach:
            click.echo(f"{_kept(generation)} is not looked at: {generation.out_of_reach}", err=True)
    problems = _problems(found, storage, settings)
    for problem in problems:
        click.echo(problem, err=True)
    return ExitCode.PROBLEMS if problems else ExitCode.FINE


def _problems(found: "Inspection", storage: "Storage", settings: "Settings") -> "list[str]":
    from rebalance_monitor.config.errors import ConfigError
    from rebalance_monitor.engine.driver.plan import outlook
    from rebalance_monitor.engine.inspection import damaged_files

    if not (found.manifest or found.generations or found.problems):
        return [f"{storage.root} holds no state: no job has run on it."]
    try:
        ahead = outlook(storage, settings, _kind(settings))
    except (ConfigError, OSError) as error:
        ahead = [str(error)]
    return list(dict.fromkeys([*found.problems, *ahead, *damaged_files(storage)]))


def _kind(settings: "Settings") -> "Kind":
    """Return what the state of a start now would depend on of the engine."""
    from rebalance_monitor.engine.driver.job import Options

    if settings.engine == "embedded":
        from rebalance_monitor.engine.embedded.engine import EmbeddedKind

        return EmbeddedKind(settings, Options())
    from rebalance_monitor.streaming.job.job import SparkKind

    return SparkKind(settings, Options())


@command.command()
@config_options
@click.option("--group", "pattern", default="*", help="Only groups whose name matches this shell pattern.")
@output_option(Form.TABLE)
def groups(config: Path | None, assignments: tuple[str, ...], pattern: str, output: Form) -> None:
    """List the groups that the state knows."""
    from rebalance_monitor.checkpoints.state.codec import StateCorruptError, StateVersionError
    from rebalance_monitor.config.errors import ConfigError

    with _keys(load_settings(config, assignments)) as shards:
        try:
            keys = list(shards)
            rows = list(_groups(keys, pattern))
        except (StateCorruptError, StateVersionError) as error:
            raise ConfigError(
                f"{error} `checkpoint verify` names every shard that cannot be read."
            ) from error
    write_rows(rows, output, ["group", "shard", "type", "generation", "members", "protocol"])
    if not rows:
        like = "" if pattern == "*" else f" like {pattern!r}"
        click.echo(f"The state holds no group{like}." if keys else _nothing_yet(), err=True)


def _nothing_yet() -> str:
    from rebalance_monitor.engine.embedded.engine import STATE_S

    return (
        "No state has been stored yet: a job does so with its batches, or every "
        f"{STATE_S:.0f} s (`engine: embedded`)."
    )


def _groups(keys: "Iterable[StoredShard]", pattern: str) -> "Iterator[dict[str, object]]":
    for key in keys:
        for name, state in key.groups():
            if is_like(name, pattern):
                yield {
                    "group": name,
                    "shard": key.shard,
                    "type": state.group_type,
                    "generation": state.generation,
                    "members": len(state.members),
                    "protocol": state.protocol,
                }


@command.command()
@config_options
@output_option(Form.TABLE)
def verify(config: Path | None, assignments: tuple[str, ...], output: Form) -> int:
    """Decode every group of every shard; exit code 1 where one cannot be read."""
    rows, wrong = [], 0
    with _keys(load_settings(config, assignments)) as keys:
        for key in keys:
            problem = key.problem()
            wrong += bool(problem)
            number = len(key.state().groups) if not problem else None
            row: dict[str, object] = {"shard": key.shard, "bucket": key.bucket, "bytes": len(key.blob)}
            rows.append({**row, "groups": number, "problem": problem or None})
    write_rows(rows, output, ["shard", "bucket", "bytes", "groups", "problem"])
    click.echo(f"{len(rows)} keys, {wrong} of them cannot be read" if rows else _nothing_yet(), err=True)
    if wrong:
        from rebalance_monitor.checkpoints.errors import REBUILD

        click.echo(REBUILD, err=True)
    return ExitCode.PROBLEMS if wrong else ExitCode.FINE


@command.command()
@config_options
@click.option("--yes", is_flag=True, help="Remove it. Without it, only list what would be removed.")
def prune(*, config: Path | None, assignments: tuple[str, ...], yes: bool) -> int:
    """Remove the state of earlier generations; the one in use, ledger and tables stay."""
    from rebalance_monitor.checkpoints.state.inspection import inspect as look
    from rebalance_monitor.checkpoints.state.inspection import remove, superseded
    from rebalance_monitor.checkpoints.storage.files import locked

    storage = storage_of(load_settings(config, assignments))
    left = False
    with locked(storage.root):
        found = look(storage.manifest, storage.states)
        if found.manifest is None:
            click.echo("There is no readable manifest, so it is not known which state is in use.", err=True)
            return ExitCode.PROBLEMS
        if not (earlier := superseded(found)):
            click.echo("There is nothing to remove: no state is older than the one in use.", err=True)
        for generation in earlier:
            if generation.out_of_reach:
                # Without its folder here nothing would name it any more, and it would stay for ever.
                click.echo(f"{_kept(generation)} cannot be removed: {generation.out_of_reach}", err=True)
                left = True
                continue
            if yes:
                remove(storage.states, generation)
            says = "removed" if yes else "would remove"
            click.echo(f"{says} state {generation.number}: {generation.size:,} bytes")
    return ExitCode.PROBLEMS if left else ExitCode.FINE


def _kept(generation: "Generation") -> str:
    return f"What Spark keeps of state {generation.number} in {generation.elsewhere}"


def _row(generation: "Generation", found: "Inspection") -> dict[str, object]:
    log = generation.log
    read = log.read("__consumer_offsets") if log else {}
    history = found.manifest.catching_up if found.manifest and generation.in_use else {}
    return {
        "state": generation.number,
        "in use": "yes" if generation.in_use else "no",
        "bytes": generation.size,
        "batches kept": generation.batches,
        "last batch": log.committed if log and log.committed >= 0 else None,
        "at": _time(log.at) if log else None,
        "read up to": sum(read.values()) if read else None,
        "history up to": sum(history.values()) if history else None,
    }


def _time(at: int) -> str | None:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if at >= 0 else None


@contextmanager
def _keys(settings: "Settings") -> "Iterator[Iterator[StoredShard]]":
    from rebalance_monitor.checkpoints.state.inspection import inspect as look
    from rebalance_monitor.checkpoints.state.stored import kept_shards
    from rebalance_monitor.config.errors import ConfigError

    storage = storage_of(settings)
    found = look(storage.manifest, storage.states)
    if found.manifest is None:
        said = " ".join(found.problems) or "no job has run on it."
        raise ConfigError(f"{storage.root} holds no state that can be read: {said}")
    if found.manifest.identity.engine == "embedded":
        yield kept_shards(storage.checkpoint(found.manifest.generation))
        return
    with _of_spark(settings, storage.location(found.manifest.generation)) as keys:
        yield keys


@contextmanager
def _of_spark(settings: "Settings", location: str) -> "Iterator[Iterator[StoredShard]]":
    from rebalance_monitor.checkpoints.storage.places import is_elsewhere
    from rebalance_monitor.streaming.spark.session import kafka_jars, start_session
    from rebalance_monitor.streaming.storage.stored_state import stored_shards

    # What reaches another file system stands with Kafka's connector in `packages:` or `jars:`.
    jars = kafka_jars(settings) if is_elsewhere(location) else []
    session = start_session("rebalance-monitor-checkpoint", settings.spark.properties(), jars)
    try:
        yield stored_shards(session, location)
    finally:
        session.stop()
