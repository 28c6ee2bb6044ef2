"""The free-form maps `kafka:` and `spark:`: properties passed through to the clients and to Spark.

`kafka:` takes any property of the Kafka Java client by its own name. In the environment, where names have
no dots, `_` stands for `.` (`REBALANCE_MONITOR_KAFKA__SASL_PASSWORD` is `sasl.password`). Refused by name:
properties that the monitor sets itself, because a wrong value would make it blind or make it join a group.
"""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from rebalance_monitor.config.kafka.addresses import servers_of
from rebalance_monitor.config.kafka.values import REACH, normalise
from rebalance_monitor.config.secrets import Value, as_value, read_secret, revealed, shown

OWNED = {
    "group.id": "the monitor never joins a consumer group",
    "auto.offset.reset": "use `source.starting`",
    "enable.auto.commit": "the monitor never commits offsets",
    "isolation.level": "the monitor reads what the coordinator reads, uncommitted",
    "key.deserializer": "the monitor reads bytes",
    "value.deserializer": "the monitor reads bytes",
    "max.poll.records": "use `source.max_poll_records`",
    "fetch.max.wait.ms": "use `source.fetch_max_wait`",
}


class FreeForm(BaseModel):
    """A section whose keys are another program's property names; `x_file` reads the value of `x`."""

    model_config = ConfigDict(extra="allow", frozen=True, populate_by_name=True, hide_input_in_errors=True)
    __pydantic_extra__: dict[str, Value] = Field(init=False)
    underscore_is_dot: ClassVar[bool] = False
    owned: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _hold(cls, raw: object) -> object:
        if not isinstance(raw, Mapping):
            return raw
        # What YAML takes for nothing or for a truth value is a name as well: `null`, `yes`.
        given = {str(key): value for key, value in raw.items()}
        spelt: dict[str, str] = {}
        for key in given:
            name = cls.own_name(key)
            if name in spelt:
                raise ValueError(f"`{spelt[name]}` and `{key}` both set `{name}`; keep one of them")
            spelt[name] = key
        return {name: cls._read(name, key, given[key]) for name, key in spelt.items()}

    @classmethod
    def own_name(cls, key: str) -> str:
        """Return the name of the property that `key` sets, however it is spelt."""
        name = key.removesuffix("_file")
        if not cls.underscore_is_dot:
            return name
        field = name.replace(".", "_")
        return field if field in cls.model_fields else name.replace("_", ".")

    @classmethod
    def _read(cls, name: str, key: str, value: object) -> object:
        if name in cls.model_fields:
            return value
        if name in cls.owned:
            raise ValueError(f"`{name}` may not be set: {cls.owned[name]}")
        given = read_secret(name, value) if key.endswith("_file") else as_value(name, value)
        if cls._settles(name):
            return as_value(name, cls._normalise(name, revealed(given)))
        return given

    @classmethod
    def _settles(cls, name: str) -> bool:  # noqa: ARG003 - of other sections by their names
        """Whether the property is brought to the form that all of Kafka's clients read alike."""
        return False

    @classmethod
    def _normalise(cls, name: str, value: str) -> str:
        try:
            return normalise(name, value)
        except ValueError as error:
            raise ValueError(f"`{name}` {error}") from None

    def extras(self) -> dict[str, Value]:
        """Return the properties that no field of this section names, secrets still wrapped."""
        return dict(self.__pydantic_extra__ or {})

    def properties(self) -> dict[str, str]:
        """Return all properties under their own names, secrets in the clear: for clients, never for logs."""
        return {key: revealed(value) for key, value in self.extras().items()}

    def redacted(self) -> dict[str, str]:
        """Return all properties as they may be printed."""
        return {key: shown(value) for key, value in self.extras().items()}


def _meant(key: str) -> str:
    """Return which property a name is likely to be meant for that no client knows, "" where it may be known.

    Clients pass over what they do not know, and would connect without TLS and login.
    """
    name = key.removesuffix("_file").replace("_", ".")
    if name in MISSPELT or name.startswith(KNOWN):
        return ""
    close = get_close_matches(name.lower(), MISSPELT, 1, 0.8)
    return MISSPELT[close[0]] if close else ""


def _prefixed(key: str, entries: Mapping[object, object]) -> str:
    """Return the property that another program's name stands for, "" for none, or where it is set as well.

    `spring.kafka.security.protocol`, or `security` alone, the first line of YAML in a file of properties.
    """
    meant = next((name for name in MISSPELT if key.endswith(f".{name}")), LEVELS.get(key, ""))
    return "" if meant in entries or isinstance(entries[key], Mapping) else meant


def _referring(entries: Mapping[object, object]) -> str:
    """Return a property of how the cluster is reached whose value stands elsewhere, "" for none.

    Such a value is `${file:/secrets/jaas:line}`. Only where a provider is named does it stand for another.
    """
    if PROVIDERS not in entries:
        return ""
    named = {str(name): str(value) for name, value in entries.items()}
    return next((name for name, value in named.items() if name.startswith(REACH) and "${" in value), "")


PROVIDERS = "config.providers"
# Of these the Python clients' table says which there are (cluster/clients/properties.py).
KNOWN = ("security.", "sasl.", "ssl.")
MISSPELT = {name: name for name in ("security.protocol", "sasl.mechanism", "sasl.jaas.config")} | {
    "bootstrap.servers": "bootstrap_servers"
}
"""Names that matter most -> as they are written here."""
LEVELS = {"security": "security.protocol", "sasl": "sasl.mechanism", "ssl": "ssl.truststore.location"}
NAME = re.compile(r"[A-Za-z0-9._-]+")


class Kafka(FreeForm):
    """The cluster to watch and how to reach it; every further key is a Kafka client property."""

    underscore_is_dot: ClassVar[bool] = True
    owned: ClassVar[Mapping[str, str]] = OWNED

    bootstrap_servers: str = Field(
        default="localhost:9092",
        description="Brokers to start from: `host:port`, several separated by commas.",
    )

    @model_validator(mode="before")
    @classmethod
    def _own_name(cls, raw: object) -> object:
        """Accept Kafka's own spelling and a YAML list for `bootstrap_servers`."""
        if not isinstance(raw, Mapping):
            return raw
        entries = dict(raw)
        if "bootstrap.servers" in entries:
            entries["bootstrap_servers"] = entries.pop("bootstrap.servers")
        for key in entries.keys() - {"bootstrap_servers"}:
            if not NAME.fullmatch(str(key)):
                # Unquoted: it may be a part of a secret.
                raise ValueError("a property's name has characters that none has: write `name=value` lines")
            if meant := _meant(str(key)) or _prefixed(str(key), entries):
                raise ValueError(f"`{key}` is unknown; did you mean `{meant}`?")
        if name := _referring(entries):
            raise ValueError(
                f"`{name}` refers to a provider of `{PROVIDERS}`, which Java's clients alone ask: write what "
                f"it stands for, or name a file that holds it by `{name}_file`"
            )
        servers = entries.get("bootstrap_servers")
        if isinstance(servers, list):
            entries["bootstrap_servers"] = ",".join(str(server) for server in servers)
        return entries

    @classmethod
    def _settles(cls, name: str) -> bool:  # noqa: ARG003 - as above
        return True

    @field_validator("bootstrap_servers")
    @classmethod
    def _addresses(cls, given: str) -> str:
        return servers_of(given)

    def client_properties(self) -> dict[str, str]:
        """Return `bootstrap.servers` and all further properties, secrets in the clear."""
        return {"bootstrap.servers": self.bootstrap_servers, **self.properties()}

    def redacted(self) -> dict[str, str]:
        """Return the section as it may be printed."""
        return {"bootstrap_servers": self.bootstrap_servers, **super().redacted()}


class Spark(FreeForm):
    """Spark configuration entries by their own names (`spark.sql.shuffle.partitions`)."""

    @model_validator(mode="after")
    def _named(self) -> Self:
        for key in self.extras():
            if not key.startswith("spark.") or re.search(r"\s", key):
                raise ValueError(
                    f"`{key}` is no Spark setting: its name must begin with `spark.` and have no blanks"
                )
        return self
