"""What `doctor` asks of a broker.

Permissions are the least that the job needs: Read and Describe on the offsets topic, Describe on the source's
own group; Describe on the cluster and on groups for the probe; DescribeConfigs on cluster, topic and groups
for values that are otherwise assumed.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from rebalance_monitor.cli.checks.result import Result, dotted, numbers
from rebalance_monitor.cli.sources import lacking
from rebalance_monitor.cluster.clients.admin import OFFSETS_TOPIC
from rebalance_monitor.cluster.errors import AccessDeniedError, DependencyError
from rebalance_monitor.coordinator.findings.wording import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from rebalance_monitor.cluster.clients.admin import ClusterAdmin
    from rebalance_monitor.config.model import Settings

OLDEST_BROKER = (2, 6)
READ_TIMEOUT_S = 15.0
RECORDS_READ = 20
"""So many of the last records are read and decoded."""
GROUP_PREFIX = "rebalance-monitor"
# Whether members may be seen is asked of so many groups.
GROUPS_ASKED = 5

BrokerCheck = Callable[["ClusterAdmin", "Settings"], Result]


def broker(admin: "ClusterAdmin", _settings: "Settings") -> Result:
    """Check that the cluster answers, and that it is not too old."""
    brokers, text = admin.brokers(), admin.broker_version()
    found = f"Kafka {text}, {counted(len(brokers), 'broker')}, cluster {admin.cluster_id() or 'without id'}"
    old = numbers(text) < OLDEST_BROKER
    return Result("broker", not old, found, f"The probe needs Kafka {dotted(OLDEST_BROKER)} or newer.", old)


def listeners(admin: "ClusterAdmin", settings: "Settings") -> Result:
    """Check that the brokers answer at the addresses that they name themselves by."""
    from rebalance_monitor.cluster.clients.trial import ADVERTISED, require_advertised

    given, wrong, known = settings.kafka.client_properties(), [], admin.brokers()
    for one in known[:ADVERTISED]:
        try:
            require_advertised(given, one.host, one.port)
        except DependencyError as error:
            wrong.append(error)
    found = " ".join(error.what for error in wrong)
    tried = f"{len(known[:ADVERTISED])} of {counted(len(known), 'broker')} tried"
    fine = f"{tried}: they answer at the addresses that they advertise"
    return Result("listeners", not wrong, found or fine, wrong[0].remedy if wrong else "")


def topic(admin: "ClusterAdmin", settings: "Settings") -> Result:
    """Check that the offsets topic exists."""
    name = settings.source.topic
    seen = admin.topic(name)
    if seen is None and name != OFFSETS_TOPIC:
        # Brokers make this one alone by themselves.
        remedy = f"Correct `source.topic`: the brokers keep their offsets in {OFFSETS_TOPIC}."
        return Result(
            "topic", ok=False, found=f"{name} does not exist, and the brokers do not create it", remedy=remedy
        )
    if seen is None:
        remedy = "It appears when the first group commits; `run` waits for it. Is this the right cluster?"
        return Result("topic", ok=False, found=f"{name} does not exist", remedy=remedy, optional=True)
    begins, ends = admin.begin_offsets(name, partly=True), admin.end_offsets(name, partly=True)
    offsets = sum(end - begins.get(partition, end) for partition, end in ends.items())
    found = f"{name}: {seen.partitions} partitions, {offsets:,} offsets"
    lacks = lacking(name, seen.unled)
    remedy = "Start the brokers that hold them: their groups have no coordinator until then."
    return Result("topic", not lacks, f"{found}; {lacks}" if lacks else found, remedy)


def cleanup(admin: "ClusterAdmin", settings: "Settings") -> Result:
    """Check that the topic is compacted: with `delete` the state of quiet groups goes, whatever their age."""
    name = settings.source.topic
    check = "cleanup policy"
    if admin.topic(name) is None:
        return Result(check, ok=True, found="not checked: the topic does not exist")
    policy = admin.topic_configs(name).get("cleanup.policy")
    if policy is None:
        remedy = f"Grant DescribeConfigs on the topic {name}."
        return Result(check, ok=False, found="not returned by the brokers", remedy=remedy, optional=True)
    fine = {part.strip() for part in policy.split(",")} == {"compact"}
    remedy = (
        f"Set cleanup.policy=compact on {name}: brokers that restart lose their groups' offsets, and the "
        "monitor its history."
    )
    if name != OFFSETS_TOPIC:
        # Compaction would take records from whoever owns the topic.
        remedy = f"Correct `source.topic`, unless {name} is a copy of {OFFSETS_TOPIC}, which is compacted."
    return Result(check, fine, f"{name} has cleanup.policy={policy}", remedy)


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
    from rebalance_monitor.cluster.clients.reader import Reading, read_records

    name = settings.source.topic
    begins, ends = admin.begin_offsets(name, partly=True), admin.end_offsets(name, partly=True)
    filled = {partition: end for partition, end in ends.items() if end > begins.get(partition, 0)}
    if not filled:
        return Result("reading", ok=True, found=f"{name} holds no records yet")
    fullest = max(filled, key=lambda partition: filled[partition])
    first = max(filled[fullest] - RECORDS_READ, begins.get(fullest, 0))
    look = Reading({fullest: first}, {fullest: filled[fullest]}, duration_s=READ_TIMEOUT_S)
    batches = list(read_records(settings.kafka.client_properties(), look, name))
    rows, strange = sum(batch.num_rows for batch in batches), _unreadable(batches)
    fine = look.reached.get(fullest, -1) >= filled[fullest]
    found = f"partition {fullest} delivers up to offset {look.reached.get(fullest, -1)}"
    found += f" ({counted(rows, 'record')} read)"
    if fine and rows and strange == rows:
        found += ", and none of them is a record of a group or an offset"
        remedy = f"Correct `source.topic`: the brokers keep their offsets in {OFFSETS_TOPIC}."
        return Result("reading", ok=False, found=found, remedy=remedy)
    return Result("reading", fine, found, "Check Read on the topic, and that clients reach every broker.")


def _unreadable(batches: "Iterable[pa.RecordBatch]") -> int:
    """Count the records that are none of the offsets topic's."""
    from rebalance_monitor.decoders.record import Failure, decode_record

    columns = (batch.select(["key", "value"]).to_pylist() for batch in batches)
    records = (record for rows in columns for record in rows)
    return sum(isinstance(decode_record(one["key"], one["value"]), Failure) for one in records)


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


def member_access(admin: "ClusterAdmin", settings: "Settings") -> Result:
    """Check whether the members of some groups, of those that may be listed, may be seen too."""
    name, remedy = "members", "Grant Describe on the groups (`*`)."
    if admin.topic(settings.source.topic) is None:
        # Asking for a group would make the brokers create the topic.
        return Result(name, ok=True, found="not checked: the topic does not exist")
    listed = {str(group["group_id"]) for one in admin.brokers() for group in admin.list_groups(one.id)}
    # A group need not exist to be asked for; the permission is wanted before there is one.
    asked = sorted(listed)[:GROUPS_ASKED] or ["doctor"]
    hidden = [group for group in asked if not admin.may_describe_group(group)]
    if not hidden:
        return Result(
            name, ok=True, found=f"Describe on {len(asked)} of {counted(len(asked), 'group')} asked"
        )
    found = f"no Describe on {len(hidden)} of {counted(len(asked), 'group')} asked"
    found += f", such as {hidden[0]!r}" if listed else ""
    found += ": the probe cannot list the members of a rebalance in progress"
    return Result(name, ok=False, found=found, remedy=remedy, optional=True)


def ends(_admin: "ClusterAdmin", settings: "Settings") -> Result:
    """Check whether the ends of the topics that the job has seen groups consume may be asked for."""
    from rebalance_monitor.cluster.ends.offsets import OffsetsClient

    if not settings.ends.enabled:
        return Result("ends", ok=True, found="not checked: switched off (`ends.enabled`); lag is unknown")
    topics = _consumed(settings)
    if not topics:
        return Result("ends", ok=True, found="not checked: the job has seen no group consume a topic yet")
    with OffsetsClient(settings.kafka.client_properties()) as client:
        refused = client.describe(topics).refused
    if not refused:
        return Result(
            "ends", ok=True, found=f"Describe on {counted(len(topics), 'topic')} that groups consume"
        )
    topic = min(refused)
    found = (
        f"the brokers do not return the ends of {len(refused)} of {counted(len(topics), 'topic')}, such as "
    )
    found += f"{topic!r} ({refused[topic]}): lag is unknown there"
    return Result(
        "ends", ok=False, found=found, remedy="Grant Describe on these topics (or `*`).", optional=True
    )


def _consumed(settings: "Settings") -> frozenset[str]:
    """Return topics by the job's groups table; epoch-based groups may show ids, which no topic is named."""
    from rebalance_monitor.dashboard.tables.groups_table import read_groups
    from rebalance_monitor.engine.storage import storage_at

    known = read_groups(storage_at(settings.storage.path).groups).groups.values()
    return frozenset(str(topic) for view in known for topic in view.summary.get("topics", ()))


def probe(admin: "ClusterAdmin", _settings: "Settings") -> Result:
    """Ask every broker once for rebalancing groups."""
    from rebalance_monitor.cluster.probe.probe import REBALANCING

    groups = [group for one in admin.brokers() for group in admin.list_groups(one.id, REBALANCING)]
    return Result(
        "probe", ok=True, found=f"every broker answers; {counted(len(groups), 'group')} rebalancing now"
    )


def values(admin: "ClusterAdmin", settings: "Settings") -> Result:
    """Check which values of the cluster are read from the brokers, configured, or assumed."""
    from rebalance_monitor.engine.settings import detection_settings, origins, origins_line

    section = settings.detection
    detection = detection_settings(section, admin)
    topic = settings.source.topic
    where = {"offsets_retention_ms": "the cluster", "max_message_bytes": f"the topic {topic}"}
    with suppress(AccessDeniedError):
        if admin.topic(topic) is None:
            del where["max_message_bytes"]
    # An older broker has no session timeouts of groups to tell.
    assumed = origins(detection, section)["assumed"]
    missing = [name for name in where if name in assumed]
    found = origins_line(detection, section)
    grants = " and ".join(where[name] for name in missing)
    remedy = f"Grant DescribeConfigs on {grants}, or set the values under `detection:`."
    return Result("broker values", not missing, found, remedy, optional=True)


def group_values(admin: "ClusterAdmin", _settings: "Settings") -> Result:
    """Check whether session timeouts that epoch-based groups have of their own may be read."""
    from rebalance_monitor.cluster.clients.admin import GROUPS_WITH_VALUES

    name = "group values"
    if numbers(admin.broker_version()) < GROUPS_WITH_VALUES:
        return Result(name, ok=True, found="not asked: groups have timeouts of their own since Kafka 4.0")
    # A group need not exist to be asked for; the permission is wanted before there is one.
    groups = admin.epoch_based_groups() or {f"{GROUP_PREFIX}-doctor": "consumer"}
    timeouts = admin.session_timeouts_of(groups)
    missing = sorted(group for group in groups if timeouts.get(group) is None)
    found = f"DescribeConfigs on {len(groups) - len(missing)} of {counted(len(groups), 'group')} asked"
    if missing:
        found = f"no DescribeConfigs on {len(missing)} of {counted(len(groups), 'group')} asked, such as "
        found += f"{missing[0]}: a session timeout of their own is not known, the brokers' is assumed"
    remedy = "Grant DescribeConfigs on the groups (`*`), or set `session_timeout` in "
    return Result(name, not missing, found, f"{remedy}`detection.groups`.", optional=True)


REMOTE: dict[str, BrokerCheck] = {
    "broker": broker,
    "listeners": listeners,
    "topic": topic,
    "cleanup policy": cleanup,
    "topic access": topic_access,
    "reading": reading,
    "source's group": source_group,
    "probe access": cluster_access,
    "members": member_access,
    "ends": ends,
    "probe": probe,
    "broker values": values,
    "group values": group_values,
}
