"""For machines: metrics, the tables and their audit (the page and its API: config/web.py)."""

from typing import Literal

from pydantic import Field

from rebalance_monitor.config.detection import Section
from rebalance_monitor.config.durations import Duration, Lasting

DAY_MS = 86_400_000


class Metrics(Section):
    """What `/metrics` exports of single groups; the rest is always exported."""

    allow: tuple[str, ...] = Field(default=("*",), description="Groups with series of their own (patterns).")
    deny: tuple[str, ...] = Field(
        default=(), description="Groups without any series, whatever `allow` says (patterns)."
    )
    max_groups: int = Field(
        default=500,
        ge=0,
        description="Groups with series of their own, at most: up to 40 each. The others are summed up as "
        "`(other)`. A scrape costs the driver 0.5 ms of CPU a group.",
    )
    lag_groups: int = Field(
        default=10_000,
        ge=0,
        description="Groups with lag by topic, at most (0.02 ms each): two series for each of the 20 topics "
        "with most.",
    )
    names: tuple[Literal["kafka_exporter", "kminion"], ...] = Field(
        default=(),
        description="Exporters under whose names lag is given as well, for dashboards and alerts that were "
        "made for them.",
    )
    partitions: tuple[str, ...] = Field(
        default=(),
        description="Groups with series of their own whose lag is given by partition too (patterns).",
    )
    max_partitions: int = Field(
        default=2_000,
        ge=0,
        description="Partitions with series of their own, at most: three each. Whole groups are taken, in "
        "the "
        "order of their names.",
    )


class Tables(Section):
    """Form and upkeep of the tables below the storage folder."""

    format: Literal["parquet", "delta"] = Field(
        default="parquet",
        description="Format of the findings table: `parquet`, or `delta`, which Spark writes with the "
        "Delta of "
        "its own version. The other tables are Parquet.",
    )

    groups_interval: Lasting = Field(
        default=Duration("30s"),
        description="Time between two writes of the `groups` table, longer where a write takes over a tenth "
        "of it.",
    )
    keep: Lasting | None = Field(
        default=None, description="Findings older than this are deleted, by whole days; empty keeps all."
    )
    optimize_interval: Duration = Field(
        default=Duration("15m"),
        description="How often small files of the findings table are merged; 0: never.",
    )

    @property
    def keep_days(self) -> int | None:
        """Days (UTC, today counts) that the findings table keeps; None for all."""
        return None if self.keep is None else -(-self.keep.ms // DAY_MS)


class Audit(Section):
    """Contracts on records and tables, checked off the hot path."""

    every_batches: int = Field(
        default=3600,
        ge=0,
        description="Batches between two audits, each in a process of its own. 0: only the verb `audit` "
        "checks. With great-expectations (the extra `quality`) it takes 550 MB for some seconds and writes "
        "Data Docs.",
    )
    sample_rows: int = Field(default=2_000, ge=1, description="Newest rows of each table that are checked.")
