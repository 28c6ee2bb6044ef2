"""What a scenario step can do: one function per verb, listed in `VERBS`.

Each takes the running scenario and the step; what it did is written to the scenario's journal by the runner.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

from confluent_kafka.admin import NewPartitions
from kafka.admin import KafkaAdminClient, MemberToRemove

from rebalance_monitor.lab.scenario.cluster_faults import CLUSTER_VERBS

if TYPE_CHECKING:
    from collections.abc import Callable

    from rebalance_monitor.lab.scenario.group_run import GroupRun
    from rebalance_monitor.lab.scenario.model import Step


def start(run: GroupRun, step: Step) -> None:
    """Start members that do not run (again); `with` overrides flags."""
    overrides: Any = step.options.get("with") or {}
    for member in step.who:
        run.start(member, {key: str(value) for key, value in overrides.items()})


def move(run: GroupRun, step: Step) -> None:
    """Start members that do not run again on hosts that they have not had, as pods that are replaced."""
    for member in step.who:
        run.start(member, {}, elsewhere=True)


def close(run: GroupRun, step: Step) -> None:
    """Close members cleanly."""
    for process in run.alive(step.who):
        process.close()


def kill(run: GroupRun, step: Step) -> None:
    """Kill members (SIGKILL); `leader` is the member that the broker's log names."""
    for process in run.alive(step.who):
        process.send(signal.SIGKILL)


def freeze(run: GroupRun, step: Step) -> None:
    """Stop members in their tracks (SIGSTOP)."""
    for process in run.alive(step.who):
        process.send(signal.SIGSTOP)


def thaw(run: GroupRun, step: Step) -> None:
    """Let frozen members go on (SIGCONT)."""
    for process in run.alive(step.who):
        process.send(signal.SIGCONT)


def stall(run: GroupRun, step: Step) -> None:
    """Let members process for `seconds` without polling."""
    for process in run.alive(step.who):
        process.tell(f"stall {step.options['seconds']}")


def command(run: GroupRun, step: Step) -> None:
    """Send members the command line `text`, which only their family understands."""
    for process in run.alive(step.who):
        process.tell(str(step.options["text"]))


def subscribe(run: GroupRun, step: Step) -> None:
    """Give members another subscription: `topics`, by their short names."""
    topics = ",".join(run.topic(name) for name in str(step.options["topics"]).split())
    for process in run.alive(step.who):
        process.tell(f"subscribe {topics}")


def unsubscribe(run: GroupRun, step: Step) -> None:
    """Let members leave without closing."""
    for process in run.alive(step.who):
        process.tell("unsubscribe")


def add_partitions(run: GroupRun, step: Step) -> None:
    """Raise topics to `to` partitions."""
    wanted = [NewPartitions(run.topic(name), int(str(step.options["to"]))) for name in step.who]
    for future in run.admin.create_partitions(wanted).values():
        future.result(timeout=20)


def create_topic(run: GroupRun, step: Step) -> None:
    """Create topics (short names) with `partitions`."""
    for name in step.who:
        run.create_topic(name, int(str(step.options.get("partitions", 4))))


def remove_members(run: GroupRun, step: Step) -> None:
    """Remove running members through the admin client, as `kafka-consumer-groups --remove-members` would."""
    ids = [process.member_ids[-1] for process in run.alive(step.who) if process.member_ids]
    leaving = [MemberToRemove(member_id=one, reason="member was removed by an admin") for one in ids]
    admin = KafkaAdminClient(bootstrap_servers=run.broker.bootstrap.split(","))
    try:
        admin.remove_group_members(run.group, leaving)
    finally:
        admin.close()


def delete_group(run: GroupRun, step: Step) -> None:
    """Delete the group through the admin client (`delete_group: it`)."""
    del step
    for future in run.admin.delete_consumer_groups([run.group], request_timeout=20).values():
        future.result(timeout=25)


VERBS: dict[str, Callable[[GroupRun, Step], None]] = {
    "start": start,
    "move": move,
    "close": close,
    "kill": kill,
    "freeze": freeze,
    "thaw": thaw,
    "stall": stall,
    "command": command,
    "subscribe": subscribe,
    "unsubscribe": unsubscribe,
    "add_partitions": add_partitions,
    "create_topic": create_topic,
    "remove_members": remove_members,
    "delete_group": delete_group,
    **CLUSTER_VERBS,
}
