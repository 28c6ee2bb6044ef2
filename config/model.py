"""The configuration: every setting, its default, its unit and what it does.

Flags win over the environment (`REBALANCE_MONITOR_…`, `__` between the levels), which wins over the YAML
file, which wins over the defaults (`config/load.py`). Unknown keys are refused by name. Secrets never appear
in a printed configuration (`config/secrets.py`).
"""

import re
from os import PathLike, fspath
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, NonNegativeInt, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from rebalance_monitor.config.alerts import Alerts
from rebalance_monitor.config.dashboard import Audit, Metrics, Tables
from rebalance_monitor.config.detection import Detection, Section
from rebalance_monitor.config.durations import Duration, Lasting
from rebalance_monitor.config.kafka.clients import Kafka, Spark
from rebalance_monitor.config.kafka.topics import topic_name
from rebalance_monitor.config.texts import MOST, require_plain
from rebalance_monitor.config.web import Web

ENVIRONMENT_PREFIX = "REBALANCE_MONITOR_"
LONGEST_PATH = 1_024
# `$HOME/x`, `${BUCKET}`: a shell's words.
UNFILLED = re.compile(r"\$(\{|[A-Za-z_])")
LAST_OFFSET = 2**63 - 2
# A scheme (or a drive of another system) without a slash behind it, or with nothing but slashes.
SCHEME_ALONE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:([^/].*|/*)")


class Source(Section):
    """What is read, and how fast."""

    topic: str = Field(default="__consumer_offsets", min_length=1, description="The offsets topic.")
    reader: Literal["spark", "python"] = Field(
        default="spark",
        description="What reads the topic: `spark`, its Kafka connector, or `python`, the monitor's own "
        "(Spark 4.0 "
        "and newer, slower) for platforms whose connector delivers nothing of an internal topic.",
    )
    starting: Literal["earliest", "latest"] = Field(
        default="earliest",
        description="Where a job without a checkpoint begins: `earliest` rebuilds every group's state first.",
    )
    max_offsets_per_trigger: int | None = Field(
        default=None,
        ge=1,
        description="Limits a batch while history is read; live batches are never limited. Empty: no limit.",
    )
    skip: dict[NonNegativeInt, NonNegativeInt] = Field(
        default={},
        description="Partition: offset of a record too large for any heap, such as `{3: 1207}`. A new entry "
        "begins a new state, once, which reads that partition from behind the record, as every verb does.",
    )
    fetch_max_wait: Duration = Field(
        default=Duration("0"),
        description="Kafka's fetch.max.wait.ms; paid once a batch for each partition with records.",
    )
    max_poll_records: int = Field(default=50_000, ge=1, description="Kafka's max.poll.records.")
    refresh: Lasting = Field(
        default=Duration("30s"),
        description="How often the topic is asked for new partitions and lost records.",
    )

    @field_validator("topic")
    @classmethod
    def _topic(cls, given: str) -> str:
        return topic_name(given)

    @model_validator(mode="after")
    def _limited(self) -> Self:
        if any(partition > MOST or offset > LAST_OFFSET for partition, offset in self.skip.items()):
            raise ValueError("`skip` names a partition or an offset that no topic has")
        if self.fetch_max_wait.ms > MOST:
            raise ValueError("`fetch_max_wait` is longer than clients can wait: 24 days at most")
        if self.reader == "python" and self.max_offsets_per_trigger is not None:
            raise ValueError("`max_offsets_per_trigger` does not go with `reader: python`")
        return self


class Storage(Section):
    """Where the job keeps its state, ledger and tables."""

    path: str = Field(
        default="rebalance-monitor-data",
        min_length=1,
        description="The job's folder: a path, or a URI (`s3://bucket/monitor`, "
        "`hdfs://…`, `gs://…`, `abfss://…`, `file:///…` for a mount without locks). One job owns it.",
    )
    checkpoint: str = Field(
        default="",
        pattern=r"^([a-z][a-z0-9+.-]*:/.*)?$",
        description="Where Spark keeps its checkpoint if executors run elsewhere: a URI that all reach "
        "(`hdfs://…`, `s3a://…`). Empty: in `path`.",
    )
    rebuild: str = Field(
        default="",
        max_length=64,
        description="Any word, such as a date: state that was begun under another word, or whose "
        "manifest cannot be read, is rebuilt at the next start, once, as by `--rebuild-state`. Empty: never.",
    )

    @field_validator("path", mode="before")
    @classmethod
    def _as_text(cls, given: object) -> object:
        return fspath(given) if isinstance(given, PathLike) else given

    @field_validator("path")
    @classmethod
    def _names_a_place(cls, given: str) -> str:
        if SCHEME_ALONE.fullmatch(given):
            # Without a quote: it may hold credentials.
            raise ValueError("names no place: write a path, or a URI such as s3://bucket/monitor")
        if given != given.strip():
            raise ValueError("begins or ends with a blank: leave it out")
        if UNFILLED.search(given):
            raise ValueError("holds a `$`, which nobody fills in: write the whole path")
        if not given.isprintable() or len(given) > LONGEST_PATH:
            raise ValueError(f"must be a path or URI of up to {LONGEST_PATH} printable characters")
        return given

    @field_validator("rebuild")
    @classmethod
    def _as_word(cls, given: str) -> str:
        return given.strip()


class Outputs(Section):
    """Where findings go; each can be switched off."""

    jsonl: bool = Field(
        default=True, description="`findings.jsonl` in the storage folder, one finding per line."
    )
    parquet: bool = Field(
        default=True,
        description="`tables/findings`, partitioned by date, and `tables/groups`. Without them `groups` and "
        "`history` have the running monitor alone, which begins empty at each start.",
    )
    console: bool = Field(
        default=True,
        description="Findings on standard output; left out there while its reader is 10,000 lines behind.",
    )
    identities: Literal["shown", "hashed", "hidden"] = Field(
        default="shown",
        description="How client ids, hosts and member ids leave the job: `shown`, `hashed` or `hidden`.",
    )
    quarantine: bool = Field(
        default=True, description="`tables/quarantine`: a sample of the records that could not be read."
    )


class Probe(Section):
    """The thread that asks the brokers what no record says."""

    enabled: bool = Field(default=True, description="Without it findings rest on records alone.")
    interval: Lasting = Field(default=Duration("1s"), description="Time between two probe samples.")


class Ends(Section):
    """The thread that asks the brokers how far the consumed topics have grown."""

    enabled: bool = Field(
        default=True,
        description="Without it lag is unknown everywhere. Needs Describe on the consumed topics.",
    )
    interval: Lasting = Field(
        default=Duration("5s"),
        description="Time between two rounds of ListOffsets; longer in proportion above 5,000 partitions of "
        "topics, or 100,000 that groups consume.",
    )


class Settings(BaseSettings):
    """The whole configuration of one monitor, which watches one cluster."""

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,
    )

    cluster_name: str = Field(
        default="", description="What people call the cluster; empty means the cluster's own id."
    )
    engine: Literal["spark", "embedded"] = Field(
        default="spark",
        description="What runs the job: `spark`, or `embedded`, one process without Spark and Java, for as "
        "long as one core is enough. An engine refuses the state of another.",
    )
    kafka: Kafka = Field(default=Kafka(), description="The cluster to watch, and any Kafka client property.")
    spark: Spark = Field(default=Spark(), description="Any Spark setting by its own name.")
    source: Source = Field(default=Source(), description="What is read, and how fast.")
    storage: Storage = Field(
        default=Storage(), description="Where the job keeps its state, ledger and tables."
    )
    trigger: Duration = Field(
        default=Duration("1s"), description="Time from the start of a batch to the next."
    )
    buckets: int = Field(
        default=1,
        ge=1,
        le=64,
        description="State keys per partition of the offsets topic; fixed once a job has state.",
    )
    detection: Detection = Field(
        default=Detection(), description="Thresholds: when silence, repetition and size become findings."
    )
    outputs: Outputs = Field(default=Outputs(), description="Where findings go; each can be switched off.")
    probe: Probe = Field(default=Probe(), description="The thread that asks the brokers what no record says.")
    ends: Ends = Field(
        default=Ends(), description="The thread that asks the brokers how far the consumed topics have grown."
    )
    metrics: Metrics = Field(default=Metrics(), description="What `/metrics` exports of single groups.")
    tables: Tables = Field(default=Tables(), description="Form and upkeep of the tables.")
    audit: Audit = Field(default=Audit(), description="Contracts on records and tables.")
    web: Web = Field(default=Web(), description="The live page, its API and the metrics.")
    alerts: Alerts = Field(
        default=Alerts(),
        description="Who is notified of what, when. Without `receivers` nobody is notified.",
    )
    jars: tuple[Path, ...] = Field(
        default=(), description="Spark's Kafka connector as files, for machines without network."
    )
    packages: tuple[str, ...] = Field(
        default=(),
        description="Coordinates (`group:artifact:version`) instead of the ones derived from Spark.",
    )

    @model_validator(mode="after")
    def _plain(self) -> Self:
        require_plain(self)
        return self

    @model_validator(mode="after")
    def _require_watchdog_after_trigger(self) -> Self:
        watchdog = self.alerts.watchdog
        if watchdog.to and watchdog.silent_after.ms < 2 * self.trigger.ms:
            raise ValueError(
                "`alerts.watchdog.silent_after` must be at least twice `trigger`: "
                "the watchdog would stay away between two batches"
            )
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the signature is pydantic-settings' own
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - a layer of `load`, which knows spellings
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - no .env files: one surprise less
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - `*_file` keys do this by name
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read the arguments alone: `load` merges flags, environment and file."""
        return (init_settings,)

    def redacted(self) -> dict[str, object]:
        """Return the effective configuration as plain data that may be printed: secrets are hidden."""
        plain = self.model_dump(mode="json", by_alias=True, exclude={"kafka", "spark"})
        sections = {"kafka": self.kafka.redacted(), "spark": self.spark.redacted()}
        return {name: sections.get(name, plain.get(name)) for name in type(self).model_fields}
