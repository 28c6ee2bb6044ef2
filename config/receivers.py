"""Receivers of alerts: the ways out, with their options and secrets.

Every field of the type `SecretStr` may be given as `<field>_file` instead: the value is that file's content
without its line end. Secrets are never printed. Two ways to the same service are two receivers.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from types import NoneType
from typing import ClassVar, Literal, Self, get_args
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, SecretStr, field_validator, model_validator

from rebalance_monitor.config.detection import Section
from rebalance_monitor.config.durations import Duration, Lasting
from rebalance_monitor.config.hosts import Host, is_host, to_ascii
from rebalance_monitor.config.kafka.clients import FreeForm
from rebalance_monitor.config.kafka.topics import writable_topic
from rebalance_monitor.config.secrets import read_secret
from rebalance_monitor.config.texts import NO_HEADER, fits_header

PROXIES = ("http://", "https://", "socks5://", "socks5h://")
"""How the address of a proxy may begin."""
LONGEST_CALL = Duration("10m")


def is_secret_field(model: type, name: str) -> bool:
    """Whether this field of a configuration section holds a secret."""
    field = getattr(model, "model_fields", {}).get(name)
    return field is not None and SecretStr in (field.annotation, *get_args(field.annotation))


def _web_problem(address: str | SecretStr) -> str:
    """Return what is wrong with a web address, without naming it; "" for nothing."""
    text = address.get_secret_value() if isinstance(address, SecretStr) else address
    if not text.lower().startswith(("https://", "http://")):
        return "must be an address that begins with https:// or http://"
    return "" if _has_host(text) else "must name a host, and a port only from 1 to 65535, without blanks"


def _base_problem(address: str | SecretStr) -> str:
    """Return what is wrong with an address to which a path is added, without naming it; "" for nothing."""
    text = address.get_secret_value() if isinstance(address, SecretStr) else address
    if "?" in text or "#" in text:
        return "must be the address of the service alone, without `?` and `#`: the path of its API is added"
    return _web_problem(text)


def _is_proxy(address: str) -> bool:
    return address.lower().startswith(PROXIES) and _has_host(address)


def _has_host(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return (
            is_host(to_ascii(parts.hostname or "")) and parts.port != 0 and not re.search(r"[\s\\]", address)
        )
    except ValueError:
        return False


def _require_whole(username: str, password: SecretStr | None) -> None:
    """Raise ValueError for a user without a password, or the reverse."""
    if bool(username) != (password is not None):
        missing = "password" if username else "username"
        raise ValueError(f"`{missing}` is missing: the service would be asked without a login")


class WayOut(Section):
    """What every way out has."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)
    addresses: ClassVar[tuple[str, ...]] = ()
    """Fields that hold web addresses; a wrong one is refused without being named, as it may be secret."""
    bases: ClassVar[tuple[str, ...]] = ()
    """Those of `addresses` to which a path is added."""
    headers: ClassVar[tuple[str, ...]] = ()
    """Fields that go into a header."""
    unused: ClassVar[Mapping[str, str]] = {}
    """Fields that every way out has and this one does not use -> what to do."""

    send_resolved: bool = Field(default=True, description="Whether the end of an incident notifies too.")
    send_updates: bool | None = Field(
        default=None,
        description="Whether news about an open incident notifies. Empty: as the service"
        " takes them without a new page (Slack threads do, incoming webhooks do not).",
    )
    per_minute: int = Field(default=30, ge=1, description="Notifications a minute at most; the rest waits.")
    timeout: Lasting = Field(default=Duration("10s"), description="How long one call may take.")
    proxy: SecretStr | None = Field(default=None, description="HTTP proxy; its address may hold a password.")
    ca_file: Path | None = Field(
        default=None, description="PEM bundle of the authorities to trust; empty: the system's."
    )

    @model_validator(mode="before")
    @classmethod
    def _from_files(cls, raw: object) -> object:
        if not isinstance(raw, Mapping):
            return raw
        entries = dict(raw)
        for name in [name for name in cls.model_fields if is_secret_field(cls, name)]:
            if f"{name}_file" not in entries:
                continue
            if entries.get(name) is not None:
                raise ValueError(f"`{name}` and `{name}_file` are both set; keep one of them")
            entries[name] = read_secret(name, entries.pop(f"{name}_file"))
        return entries

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        for name in type(self).model_fields:
            value = getattr(self, name)
            if isinstance(value, SecretStr) and not value.get_secret_value().strip():
                raise ValueError(f"`{name}` is empty")
        return self

    @field_validator("timeout")
    @classmethod
    def _not_for_ever(cls, timeout: Duration) -> Duration:
        if timeout.ms > LONGEST_CALL.ms:
            raise ValueError(f"must be at most {LONGEST_CALL}: other alerts wait as long")
        return timeout

    @model_validator(mode="after")
    def _has_fit_proxy(self) -> Self:
        if self.proxy is not None and not _is_proxy(self.proxy.get_secret_value()):
            raise ValueError(f"`proxy` must be an address that begins with {', '.join(PROXIES)}")
        return self

    @model_validator(mode="after")
    def _addresses(self) -> Self:
        for name in self.addresses:
            value = getattr(self, name)
            for address in value if isinstance(value, tuple) else (value,):
                problem = _base_problem if name in self.bases else _web_problem
                if address is not None and (wrong := problem(address)):
                    raise ValueError(f"`{name}` {wrong}")
        return self

    @model_validator(mode="after")
    def _fit_headers(self) -> Self:
        for name in self.headers:
            value = getattr(self, name)
            text = value.get_secret_value() if isinstance(value, SecretStr) else value
            if text is not None and not fits_header(text):
                raise ValueError(f"`{name}` {NO_HEADER}")
        return self

    @model_validator(mode="after")
    def _used(self) -> Self:
        for name, advice in self.unused.items():
            if getattr(self, name) is not None:
                raise ValueError(f"`{name}` has no effect here: {advice}")
        return self

    def secrets(self) -> list[str]:
        """Return the values that must not be shown."""
        given = [getattr(self, name) for name in type(self).model_fields]
        return [value.get_secret_value() for value in given if isinstance(value, SecretStr)]


class Slack(WayOut):
    """Slack: with `token` and `channel` one thread per incident, with `webhook_url` single messages."""

    addresses: ClassVar[tuple[str, ...]] = ("webhook_url", "api_url")
    bases: ClassVar[tuple[str, ...]] = ("api_url",)
    headers: ClassVar[tuple[str, ...]] = ("token",)

    token: SecretStr | None = Field(
        default=None, description="Bot token with chat:write, and channels:history to post nothing twice."
    )
    channel: str = Field(default="", description="Channel id, like C0123ABCD, with `token`.")
    webhook_url: SecretStr | None = Field(default=None, description="Address of an incoming webhook.")
    api_url: str = Field(default="https://slack.com/api/", description="Address of Slack's Web API.")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.token is None) == (self.webhook_url is None):
            raise ValueError("set either `token` and `channel`, or `webhook_url`")
        if self.webhook_url is not None and self.channel:
            raise ValueError("`channel` goes with `token`: a webhook posts to the channel it was made for")
        if self.token is not None and not self.channel:
            raise ValueError("`channel` is missing: which channel shall the bot post to?")
        return self


class PagerDuty(WayOut):
    """PagerDuty, Events API v2."""

    addresses: ClassVar[tuple[str, ...]] = ("base_url",)
    bases: ClassVar[tuple[str, ...]] = addresses

    routing_key: SecretStr = Field(description="The integration's routing key.")
    base_url: str = Field(
        default="https://events.pagerduty.com",
        description="The Events API; events.eu.pagerduty.com in the EU.",
    )


class Alertmanager(WayOut):
    """Prometheus Alertmanager, API v2; firing alerts are sent again and again, as it expects."""

    addresses: ClassVar[tuple[str, ...]] = ("urls",)
    bases: ClassVar[tuple[str, ...]] = addresses
    headers: ClassVar[tuple[str, ...]] = ("bearer_token",)

    urls: tuple[str, ...] = Field(min_length=1, description="All its instances, as http://alertmanager:9093.")
    per_minute: int = Field(
        default=6_000,
        ge=1,
        description="Pushes a minute at most; what fires and cannot be pushed again in time ends there.",
    )
    resend_interval: Lasting = Field(
        default=Duration("1m"),
        description="How often firing alerts are pushed again; it forgets after four times this.",
    )
    username: str = Field(default="", description="User of basic authentication.")
    password: SecretStr | None = Field(default=None, description="Password of basic authentication.")
    bearer_token: SecretStr | None = Field(default=None, description="Token, instead of a user.")

    @model_validator(mode="after")
    def _one_login(self) -> Self:
        if self.bearer_token is not None and (self.username or self.password is not None):
            raise ValueError("`bearer_token` and a login by `username` are both set; keep one of them")
        if ":" in self.username:
            raise ValueError("`username` may hold no `:`: basic authentication ends it there")
        _require_whole(self.username, self.password)
        return self


class Webhook(WayOut):
    """A POST to any address: JSON, or a Jinja2 template of yours; signed with HMAC-SHA256 on request."""

    addresses: ClassVar[tuple[str, ...]] = ("url",)
    headers: ClassVar[tuple[str, ...]] = ("content_type", "authorization")

    url: SecretStr = Field(description="The address; it may hold a token, so it counts as a secret.")
    template: str = Field(
        default="",
        description="`teams`, `opsgenie`, `discord`, `telegram`, or one of `alerts.templates`. Empty: JSON.",
    )
    content_type: str = Field(default="application/json", description="Content type of the body.")
    signing_secret: SecretStr | None = Field(
        default=None, description="Key of the signature: text, or `whsec_` and base64."
    )
    authorization: SecretStr | None = Field(default=None, description="Value of the Authorization header.")


class Email(WayOut):
    """Mail by SMTP."""

    unused: ClassVar[Mapping[str, str]] = {"proxy": "the mail server is reached without a proxy"}

    to: tuple[str, ...] = Field(min_length=1, description="Recipients.")
    sender: str = Field(min_length=1, description="The From address.")
    host: Host = Field(default="localhost", description="SMTP server.")
    port: int = Field(default=587, ge=1, le=65535, description="Its port.")
    security: Literal["starttls", "tls", "none"] = Field(
        default="starttls", description="Transport security."
    )
    username: str = Field(default="", description="User, if the server requires one.")
    password: SecretStr | None = Field(default=None, description="The user's password.")

    @model_validator(mode="after")
    def _one_login(self) -> Self:
        _require_whole(self.username, self.password)
        return self


class ProducerProperties(FreeForm):
    """Kafka client properties of a producer, by their own names."""

    underscore_is_dot: ClassVar[bool] = False

    @classmethod
    def _settles(cls, name: str) -> bool:
        # The producer is librdkafka's, and may log in by ways that the other clients do not have.
        return name in {"bootstrap.servers", "security.protocol"}


class KafkaTopic(WayOut):
    """A Kafka topic: one JSON record per notification, keyed by group."""

    unused: ClassVar[Mapping[str, str]] = {
        "proxy": "brokers are reached without a proxy",
        "ca_file": "set `ssl.ca.location` in `properties`",
    }

    topic: str = Field(min_length=1, description="The topic.")
    properties: ProducerProperties = Field(
        default=ProducerProperties(),
        description="Kafka client properties; without `bootstrap.servers` those of `kafka:` are taken.",
    )

    @field_validator("topic")
    @classmethod
    def _writable(cls, given: str) -> str:
        return writable_topic(given)

    def secrets(self) -> list[str]:
        """Return the values that must not be shown, those of the properties among them."""
        hidden = [value for value in self.properties.extras().values() if isinstance(value, SecretStr)]
        return [*super().secrets(), *(value.get_secret_value() for value in hidden)]


class Console(WayOut):
    """Text on standard error."""


class Receiver(Section):
    """One receiver that routes name, with any integrations; without one, nobody is notified."""

    name: str = Field(
        min_length=1,
        description="The name that routes use; an integration is `<name>/<kind>` in logs and metrics.",
    )
    slack: Slack | None = Field(default=None, description="Slack.")
    pagerduty: PagerDuty | None = Field(default=None, description="PagerDuty, Events API v2.")
    alertmanager: Alertmanager | None = Field(default=None, description="Prometheus Alertmanager.")
    webhook: Webhook | None = Field(default=None, description="HTTP POST.")
    email: Email | None = Field(default=None, description="Mail by SMTP.")
    kafka: KafkaTopic | None = Field(default=None, description="A Kafka topic.")
    console: Console | None = Field(default=None, description="Text on standard error; `console: {}`.")

    def ways(self) -> dict[str, WayOut]:
        """Return the ways out under the names of their kinds."""
        found = {name: getattr(self, name) for name in type(self).model_fields if name != "name"}
        return {name: way for name, way in found.items() if way is not None}


KINDS = tuple(name for name, field in Receiver.model_fields.items() if NoneType in get_args(field.annotation))
"""The kinds of ways out: slack, pagerduty, …"""
