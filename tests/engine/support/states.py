"""States that a start resumes or begins, on a topic of three partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.config.model import Settings
from rebalance_monitor.engine.driver.job import Options
from rebalance_monitor.engine.driver.plan import StatePlan, plan_state
from rebalance_monitor.engine.embedded.engine import EmbeddedKind
from rebalance_monitor.engine.storage import Storage
from rebalance_monitor.engine.topic.facts import TopicFacts
from rebalance_monitor.streaming.job.job import SparkKind

if TYPE_CHECKING:
    from pathlib import Path

FACTS = TopicFacts("__consumer_offsets", "topic", "cluster", {0: 0, 1: 7, 2: 0}, {0: 10, 1: 7, 2: 3})
DEFAULTS = Settings()


def plan(
    root: Path, facts: TopicFacts = FACTS, *, rebuild: bool = False, settings: Settings | None = None
) -> StatePlan:
    return planned(Storage(root), facts, settings or Settings(), rebuild=rebuild)


def planned(
    storage: Storage, facts: TopicFacts = FACTS, settings: Settings = DEFAULTS, *, rebuild: bool = False
) -> StatePlan:
    kind = (EmbeddedKind if settings.engine == "embedded" else SparkKind)(settings, Options())
    return plan_state(storage, facts, settings, kind, rebuild=rebuild)
