"""What `doctor` looks at: one function per check, each one line of the report.

A check says what is fine, or what is wrong and what to do. Permissions are the least that the job needs: Read
and Describe on the offsets topic, Describe on the source's own group; Describe on the cluster for the probe;
DescribeConfigs on cluster and topic for values that are otherwise assumed.
"""

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from rebalance_monitor.cluster.errors import DependencyError

if TYPE_CHECKING:
    from rebalance_monitor.checkpoints.remote_place import RemotePlace
    from rebalance_monitor.cluster.admin import ClusterAdmin
    from rebalance_monitor.config.model import Settings

PYTHONS = ((3, 11), (3, 12), (3, 13))
# Package -> versions from and below which the job runs.
PACKAGES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "pyspark": ((3, 5), (4, 4)),
    "pyarrow": ((15,), (26,)),
    "pandas": ((2, 2), (3,)),
    "kafka-python": ((3,), (4,)),
    "confluent-kafka": ((2, 6), (3,)),
}
BLIND_TRAP = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
OLDEST_BROKER = (2, 6)
READ_TIMEOUT_S = 15.0
GROUP_PREFIX = "rebalance-monitor"


@dataclass(frozen=True, slots=True)
class Result:
    """One line: what was looked at, whether it is fine, what was found, and what to do if it is not.

    `optional`: the job runs without it, and assumes or leaves out something.
    """

    check: str
    ok: bool
    found: str
    remedy: str = ""
    optional: bool = False


Check = Callable[["Settings"], Result]
BrokerCheck = Callable[["ClusterAdmin", "Settings"], Result]


def run_checks(settings: "Settings") -> Iterator[Result]:
    """Yield the results in order; checks of the broker come only where one answers."""
    for name, check in LOCAL.items():
        yield _guarded(name, lambda check=check: check(settings))  # type: ignore[misc] # bound now
    from rebalance_monitor.cluster.admin import ClusterAdmin

    try:
        admin = ClusterAdmin(settings.kafka.client_properties())
    except DependencyError as error:
        yield Result("broker", ok=False, found=error.what, remedy=error.remedy)
        return
    from rebalance_monitor.cli.sight import CHECK, through_spark

    with admin:
        seen = []
        for name, asks in REMOTE.items():
            seen.append(_guarded(name, lambda asks=asks: asks(admin, settings)))  # type: ignore[misc] # bound now
            yield seen[-1]
        if all(result.ok or result.optional for result in seen):
            yield _guarded(CHECK, lambda: through_spark(admin, settings))


def _guarded(name: str, check: Callable[[], Result]) -> Result:
    try:
        return check()
    except DependencyError as error:
        return Result(name, ok=False, found=error.what, remedy=error.remedy)


def python(_settings: "Settings") -> Result:
    """Check the version of Python."""
    found = ".".join(map(str, sys.version_info[:3]))
    known = ", ".join(".".join(map(str, pair)) for pair in PYTHONS)
    return Result("python", sys.version_info[:2] in PYTHONS, f"Python {found}", f"Use one of {known}.")


def packages(_settings: "Settings") -> Result:
    """Check the versions of the libraries that break the job where they are others."""
    seen, wrong = [], []
    for name, (least, below) in PACKAGES.items():
        try:
            text = version(name)
        except PackageNotFoundError:
            wrong.append(f"{name} is missing")
            continue
        seen.append(f"{name} {text}")
        if not least <= numbers(text) < below:
            wrong.append(f"{name} must be >= {dotted(least)} and < {dotted(below)}, not {text}")
    remedy = "Install the pinned set: pip install 'rebalance-monitor[spark]'."
    return Result("packages", not wrong, "; ".join(wrong) or ", ".join(seen), remedy)


def java(_settings: "Settings") -> Result:
    """Check that a Java which Spark starts on is installed."""
    from rebalance_monitor.cluster.java import find_java

    found = find_java()
    return Result("java", ok=True, found=f"Java {found.major} in {found.home}")


def jars(settings: "Settings") -> Result:
    """Check that the jars of Spark's Kafka source are there or can be fetched."""
    from rebalance_monitor.cluster.jars import installed_spark, resolve_spark_kafka
    from rebalance_monitor.streaming.session import is_platform

    if is_platform(os.environ):
        return Result("jars", ok=True, found="the platform's own connector is used")
    spark, scala = installed_spark()
    found = resolve_spark_kafka(spark, scala, settings)
    return Result("jars", ok=True, found=f"{len(found)} jars for Spark {spark} (Scala {scala})")


def blind_trap(settings: "Settings") -> Result:
    """Check that nothing switches off the setting without which Spark delivers no row of this topic."""
    value = settings.spark.properties().get(BLIND_TRAP, "true")
    return Result(
        "blind trap",
        value.strip().lower() == "true",
        f"{BLIND_TRAP} is {value}",
        f"Remove {BLIND_TRAP} from `spark:`: without it Spark gives no row of this topic, and no error.",
    )


def storage(settings: "Settings") -> Result:
    """Check that the job's folder can be written."""
    from rebalance_monitor.checkpoints.places import is_remote
    from rebalance_monitor.streaming.storage import storage_at

    path = storage_at(settings.storage.path).root
    if is_remote(path):
        return _remote_storage(path)
    path = Path(str(path))
    nearest = next(folder for folder in (path, *path.parents) if folder.exists())
    fine = nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
    found = f"{path} can{'' if fine else 'not'} be written"
    return Result("storage", fine, found, f"Make {nearest} a writable folder, or set `storage.path`.")


def _remote_storage(root: "RemotePlace") -> Result:
    """Write, list, read and delete a file: all that a job does there."""
    trial = root / "doctor" / "trial"
    try:
        trial.put(b"trial")
        listed = [found.name for found in (root / "doctor").glob("[!.]*")]
        fine = trial.read_bytes() == b"trial" and "trial" in listed
        trial.unlink()
        why = "" if fine else ": what was written did not come back"
    except OSError as error:
        fine, why = False, f": {str(error).splitlines()[0]}"
    found = f"{root} can{'' if fine else 'not'} be written and read{why}"
    advice = "Give this machine the right to read, list, write and delete there, or set `storage.path`."
    return Result("storage", fine, found, advice)


def broker(admin: "ClusterAdmin", _settings: "Settings") -> Result:
    """Check that the cluster answers, and that it is not too old."""
    brokers, text = admin.brokers(), admin.broker_version()
    found = f"Kafka {text}, {len(brokers)} broker(s), cluster {admin.cluster_id() or 'without id'}"
    old = numbers(text) < OLDEST_BROKER
    return Result("broker", not old, found, f"The probe needs Kafka {dotted(OLDEST_BROKER)} or newer.", old)


def topic(admin: "ClusterAdmin", settings: "Settings") -> Result:
    """Check that the offsets topic exists."""
    name = settings.source.topic
    seen = admin.topic(name)
    if seen is None:
        remedy = "It appears when the first group commits; `run` waits for it. Is this the right cluster?"
        return Result("topic", ok=False, found=f"{name} does not exist", remedy=remedy, optional=True)
    begins, ends = admin.begin_offsets(name), admin.end_offsets(name)
    offsets = sum(end - begins.get(partition, end) for partition, end in ends.items())
    return Result("topic", ok=True, found=f"{name}: {seen.partitions} partitions, {offsets:,} offsets")


def topic_access(admin: "ClusterAdmin", settings: "Settings") -> Result:
    """Check what may be done with the topic; brokers without an authorizer allow everything."""
    name = settings.source.topic
    if admin.topic(name) is None:
        return Result("topic access", ok=True, found="not checked: the topic does not exist")
    missing = sorted({"READ", "DESCRIBE"} - admin.topic_operations(name))
    found = f"no {' and '.join(missing)} on the topic {name}" if missing else f"Read and Describe on {name}"
    return Result("topic access", not missing, found, f"Grant {' and '.join(missing)} on the topic {name}.")


def reading(admin: "ClusterAdmin", settings: "Settings") -> Result:
    """Read the last record of the fullest partition, as the job would."""
    from rebalance_monitor.cluster.reader import Reading, read_records

    name = settings.source.topic
    begins, ends = admin.begin_offsets(name), admin.end_offsets(name)
    filled = {partition: end for partition, end in ends.items() if end > begins.get(partition, 0)}
    if not filled:
        return Result("reading", ok=True, found=f"{name} holds no records yet")
    fullest = max(filled, key=lambda partition: filled[partition])
    look = Reading({fullest: filled[fullest] - 1}, {fullest: filled[fullest]}, duration_s=READ_TIMEOUT_S)
    rows = sum(batch.num_rows for batch in read_records(settings.kafka.client_properties(), look, name))
    fine = look.reached.get(fullest, -1) >= filled[fullest]
    found = (
        f"partition {fullest} delivers up to offset {look.reached.get(fullest, -1)} ({rows} record(s) read)"
    )
    return Result("reading", fine, found, "Check Read on the topic, and that clients reach every broker.")


def source_group(admin: "ClusterAdmin", settings: "Settings") -> Result:
    """Check what Spark's source needs: it looks its own group up, though it never joins one."""
    if admin.topic(settings.source.topic) is None:
        # Asking for a group would make the brokers create the topic.
        return Result("source's group", ok=True, found="not checked: the topic does not exist")
    fine = admin.may_describe_group(f"{GROUP_PREFIX}-doctor")
    words = f"Describe on groups with the prefix {GROUP_PREFIX}"
    return Result("source's group", fine, words if fine else f"no {words}", f"Grant {words}.")


def cluster_access(admin: "ClusterAdmin", _settings: "Settings") -> Result:
    """Check what the probe needs."""
    fine = "DESCRIBE" in admin.cluster_operations()
    found = "Describe on the cluster" if fine else "no Describe on the cluster: the probe sees few groups"
    return Result("probe access", fine, found, "Grant Describe on the cluster.", optional=True)


def probe(admin: "ClusterAdmin", _settings: "Settings") -> Result:
    """Look once for rebalancing groups at every broker."""
    from rebalance_monitor.cluster.probe import REBALANCING

    groups = [group for one in admin.brokers() for group in admin.list_groups(one.id, REBALANCING)]
    return Result("probe", ok=True, found=f"every broker answers; {len(groups)} group(s) rebalancing now")


def values(admin: "ClusterAdmin", settings: "Settings") -> Result:
    """Check which configuration values the brokers tell."""
    from rebalance_monitor.cluster.copying import broker_values

    told = broker_values(admin, settings.source.topic)
    missing = sorted({"offsets_retention_ms", "max_message_bytes"} - set(told))
    found = ", ".join(f"{name} {value}" for name, value in told.items())
    if missing:
        found = f"not told, so assumed: {', '.join(missing)}"
    remedy = "Grant DescribeConfigs on the cluster and the topic, or set the values under `detection:`."
    return Result("broker values", not missing, found, remedy, optional=True)


def numbers(text: str) -> tuple[int, ...]:
    """Return the leading numbers of a version."""
    parts = text.split("+", maxsplit=1)[0].split(".")
    return tuple(int(part) for part in parts if part.isdigit())


def dotted(parts: tuple[int, ...]) -> str:
    """Return a version as text."""
    return ".".join(map(str, parts))


LOCAL: dict[str, Check] = {
    "python": python,
    "packages": packages,
    "java": java,
    "jars": jars,
    "blind trap": blind_trap,
    "storage": storage,
}
REMOTE: dict[str, BrokerCheck] = {
    "broker": broker,
    "topic": topic,
    "topic access": topic_access,
    "reading": reading,
    "source's group": source_group,
    "probe access": cluster_access,
    "probe": probe,
    "broker values": values,
}
