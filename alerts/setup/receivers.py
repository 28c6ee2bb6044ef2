"""Sinks from the configuration, with what the dispatcher has to know of each. Opens no connection.

Raises ConfigError, in words without secrets, for options that a sink refuses.
"""

from __future__ import annotations

import sys
from base64 import b64encode
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from pydantic import SecretStr

from rebalance_monitor.alerts.dispatch.plan import Plan, WayOut
from rebalance_monitor.alerts.dispatch.watchdog import WatchdogRule
from rebalance_monitor.alerts.messages.links import Links
from rebalance_monitor.alerts.routing.routes import ALL_LABELS, Route
from rebalance_monitor.alerts.setup.setup import (
    names_of,
    policy_of,
    rules_of,
    service_of,
    takes_updates,
    ways_of,
)
from rebalance_monitor.alerts.sinks.http import Net
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.config.kafka.values import REACH, for_librdkafka
from rebalance_monitor.config.secrets import is_secret

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rebalance_monitor.alerts.messages.notification import Sink
    from rebalance_monitor.alerts.routing.labels import Labels
    from rebalance_monitor.config import receivers as options
    from rebalance_monitor.config.alerts import Alerts
    from rebalance_monitor.config.model import Settings

GROUP_PAGE = "/?group={group}"
INCIDENT_PAGE = "/?incident={incident}"
NO_ADDRESS = "No links: `web.url` is not set. Runbook: /runbooks/#{kind} on the monitor's page."
NO_PAGE = "No links: `web.enabled` is false. Runbook: docs/runbooks.md#{kind}."


def plan_of(settings: Settings, cluster: str, silenced: Callable[[Labels, int], bool] | None = None) -> Plan:
    """Return the plan of a dispatcher; `cluster` is what findings call it. Raises ConfigError."""
    section = settings.alerts
    rules = rules_of(section)
    ways = {name: _facts(name, kind, way, section) for name, (kind, way) in ways_of(section).items()}
    names = names_of(section)
    return Plan(
        rules=replace(rules, silenced=silenced or rules.silenced, fallback=tuple(map(_fallback, names))),
        ways=ways,
        policy=policy_of(section, settings.detection.teams),
        links=links_of(settings),
        watchdog=WatchdogRule(
            ways=tuple(way for name in section.watchdog.to for way in names[name]),
            interval_ms=section.watchdog.interval.ms,
            silent_after_ms=section.watchdog.silent_after.ms,
        ),
        sink_failing_ms=section.sink_failing_after.ms,
        cluster=cluster,
    )


def links_of(settings: Settings) -> Links:
    """Return the addresses that messages lead to."""
    web = settings.web.address
    runbooks = settings.alerts.links.runbooks or (f"{web}/runbooks/" if web else None)
    if not web:
        return Links(runbook=runbooks, missing=NO_ADDRESS if settings.web.enabled else NO_PAGE)
    return Links(runbook=runbooks, page=web + GROUP_PAGE, incident=web + INCIDENT_PAGE)


def sinks_of(settings: Settings) -> dict[str, Sink]:
    """Return a sink for each way out. Raises ConfigError with every problem."""
    problems, sinks = [], {}
    for name, (kind, way) in ways_of(settings.alerts).items():
        try:
            sinks[name] = _MAKERS[kind](name, way, settings)
        except (ValueError, OSError, ConfigError) as error:
            problems.append(f"the receiver {name!r}: {_said(error, way)}")
    if problems:
        raise ConfigError.of(problems)
    return sinks


def _said(error: Exception, way: options.WayOut) -> str:
    """Return the text of an error; a library's text that quotes a secret is left out."""
    words = str(error)
    if any(secret in words for secret in way.secrets()):
        return f"one of its secret values cannot be used ({type(error).__name__})"
    return words


def _facts(name: str, kind: str, way: options.WayOut, section: Alerts) -> WayOut:
    resend = getattr(way, "resend_interval", None)
    resend_ms = min(resend.ms, section.watchdog.interval.ms) if resend else None
    service = service_of(section, way)
    has_end = kind in {"pagerduty", "alertmanager"} or (service is not None and service.closes)
    edits = takes_updates(kind, way) or has_end
    return WayOut(name, kind, way.per_minute, resend_ms, closes=edits and way.send_resolved)


def _fallback(receiver: str) -> Route:
    return Route(
        path=f"fallback/{receiver}",
        receiver=receiver,
        group_by=(ALL_LABELS,),
        group_wait=0,
        group_interval=60_000,
    )


def _net(way: options.WayOut) -> Net:
    ca_file = None if way.ca_file is None else str(way.ca_file)
    return Net(way.timeout.seconds, way.proxy, ca_file)


def _slack(name: str, way: options.WayOut, _: Settings) -> Sink:
    from rebalance_monitor.alerts.sinks.slack import SlackSink  # noqa: PLC0415 - slow to import
    from rebalance_monitor.alerts.sinks.slack_webhook import SlackWebhookSink  # noqa: PLC0415

    slack = cast("options.Slack", way)
    if slack.webhook_url is not None:
        return SlackWebhookSink(name, slack.webhook_url, net=_net(way))
    if slack.token is None:
        raise ValueError("`token` is missing")
    return SlackSink(name, slack.token, slack.channel, base_url=slack.api_url, net=_net(way))


def _pagerduty(name: str, way: options.WayOut, _: Settings) -> Sink:
    from rebalance_monitor.alerts.sinks.pagerduty import PagerDutySink  # noqa: PLC0415

    duty = cast("options.PagerDuty", way)
    return PagerDutySink(name, duty.routing_key, base_url=duty.base_url, net=_net(way))


def _alertmanager(name: str, way: options.WayOut, settings: Settings) -> Sink:
    from rebalance_monitor.alerts.sinks.alertmanager import AlertmanagerSink  # noqa: PLC0415

    manager = cast("options.Alertmanager", way)
    resend_ms = manager.resend_interval.ms
    return AlertmanagerSink(
        name,
        manager.urls,
        headers=_authorization(manager),
        resend_ms=resend_ms,
        beat_ms=settings.alerts.watchdog.interval.ms,
        links=links_of(settings),
        net=_net(way),
    )


def _authorization(way: options.Alertmanager) -> Mapping[str, SecretStr]:
    if way.bearer_token is not None:
        return {"Authorization": SecretStr(f"Bearer {way.bearer_token.get_secret_value()}")}
    if way.password is not None:
        pair = f"{way.username}:{way.password.get_secret_value()}".encode()
        return {"Authorization": SecretStr(f"Basic {b64encode(pair).decode()}")}
    return {}


def _webhook(name: str, way: options.WayOut, settings: Settings) -> Sink:
    from rebalance_monitor.alerts.sinks.webhook import WebhookSink  # noqa: PLC0415

    hook = cast("options.Webhook", way)
    own = settings.alerts.templates.get(hook.template)
    service = service_of(settings.alerts, hook)
    return WebhookSink(
        name,
        hook.url,
        template=own if service is None else service.body,
        path="" if service is None else service.path,
        content_type=hook.content_type,
        secret=hook.signing_secret,
        headers={} if hook.authorization is None else {"Authorization": hook.authorization},
        net=_net(way),
    )


def _email(name: str, way: options.WayOut, _: Settings) -> Sink:
    from rebalance_monitor.alerts.sinks.email import EmailSink, Security, Server  # noqa: PLC0415

    mail = cast("options.Email", way)
    server = Server(mail.host, mail.port, Security(mail.security), mail.username or None, mail.password)
    return EmailSink(name, server, mail.sender, mail.to, net=_net(way))


def _kafka(name: str, way: options.WayOut, settings: Settings) -> Sink:
    from rebalance_monitor.alerts.sinks.kafka import KafkaSink  # noqa: PLC0415

    topic = cast("options.KafkaTopic", way)
    own, cluster = topic.properties.properties(), settings.kafka.client_properties()
    # From the watched cluster only the connection properties; the others belong to a consumer.
    reach = {key: value for key, value in cluster.items() if key.startswith(REACH)}
    given = for_librdkafka(own if "bootstrap.servers" in own else {**reach, **own})
    plain = {key: value for key, value in given.items() if not is_secret(key)}
    hidden = {key: SecretStr(value) for key, value in given.items() if is_secret(key)}
    timeout_s = way.timeout.seconds
    return KafkaSink(name, topic.topic, plain, secrets=hidden, timeout_s=timeout_s)


def _console(name: str, _: options.WayOut, __: Settings) -> Sink:
    from rebalance_monitor.alerts.sinks.console import ConsoleSink  # noqa: PLC0415

    return ConsoleSink(name, sys.stderr)


_MAKERS: dict[str, Callable[[str, options.WayOut, Settings], Sink]] = {
    "slack": _slack,
    "pagerduty": _pagerduty,
    "alertmanager": _alertmanager,
    "webhook": _webhook,
    "email": _email,
    "kafka": _kafka,
    "console": _console,
}
