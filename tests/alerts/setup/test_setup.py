"""The `alerts` section of the configuration: what becomes of it, what is refused, what is warned of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from rebalance_monitor.alerts.render.services import SERVICES
from rebalance_monitor.alerts.setup.receivers import plan_of, sinks_of
from rebalance_monitor.alerts.setup.setup import checked, policy_of, rules_of, service_of, ways_of
from rebalance_monitor.config.alerts import Alerts
from rebalance_monitor.config.detection import Detection
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.config.load import load
from rebalance_monitor.config.model import Settings

if TYPE_CHECKING:
    from pathlib import Path

FULL = """
receivers:
  - {name: sre, slack: {token: xoxb-secret, channel: C0123ABCD}, pagerduty: {routing_key: r0uting}}
  - {name: payments, webhook: {url: "https://hooks.example/x", template: chat}}
  - {name: mail, email: {to: [a@example.com], sender: b@example.com}}
route:
  receiver: sre
  group_by: [cluster, group]
  group_wait: 5s
  routes:
    - matchers: ['team="payments"', 'severity=~"warning|critical"']
      receiver: payments
      continue: true
      group_interval: 2m
      routes:
        - {matchers: ['severity="critical"'], receiver: mail, mute_time_intervals: [nights]}
    - {matchers: ['alertname="storm"'], group_by: ['...']}
inhibit_rules:
  - {source_matchers: ['severity="critical"'], target_matchers: ['severity="warning"'], equal: [cluster]}
time_intervals:
  - name: nights
    time_intervals:
      - times: [{start_time: "22:00", end_time: "24:00"}]
        weekdays: ["monday:friday"]
        location: Europe/Berlin
templates: {chat: '{"text": {{ title | tojson }}}'}
watchdog: {to: [mail]}
"""


def section(text: str = FULL, **changes: Any) -> Alerts:  # noqa: ANN401 - any key of the section
    return Alerts(**{**yaml.safe_load(text), **changes})


def test_routes_inherit_what_they_leave_out_and_only_that() -> None:
    root = rules_of(section()).root
    first, second = root.routes
    assert (first.receiver, first.group_wait, first.group_interval, first.goes_on) == (
        "payments",
        5_000,
        120_000,
        True,
    )
    (below,) = first.routes
    assert (below.receiver, below.group_interval, below.goes_on) == ("mail", 120_000, False)
    assert (second.receiver, second.group_by) == ("sre", ("...",))
    assert root.repeat_interval == 14_400_000


def test_a_receiver_with_several_ways_out_is_notified_on_each() -> None:
    rules = rules_of(section())
    assert rules.ways_of("sre") == ("sre/slack", "sre/pagerduty")
    assert rules.ways_of("mail") == ("mail/email",)
    assert rules.updating == {"sre/slack"}


def test_the_top_route_waits_as_documented_where_nothing_is_set() -> None:
    root = rules_of(section(route={"receiver": "sre"})).root
    assert (root.group_by, root.group_wait, root.group_interval, root.repeat_interval) == (
        ("cluster", "group", "scope"),
        10_000,
        60_000,
        14_400_000,
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"route": {"receiver": "nobody"}}, "receiver 'nobody', which does not exist"),
        ({"route": {}}, "`alerts.route.receiver` is missing"),
        ({"route": {"receiver": "sre", "matchers": ['a="b"']}}, "may not have matchers"),
        ({"route": {"receiver": "sre", "routes": [{"matchers": ['severty="x"']}]}}, "the label 'severty'"),
        ({"route": {"receiver": "sre", "routes": [{"matchers": ["severity"]}]}}, "cannot be read"),
        ({"route": {"receiver": "sre", "routes": [{"matchers": ['group=~"("']}]}}, "matcher"),
        ({"route": {"receiver": "sre", "group_by": ["pod"]}}, "the label 'pod'"),
        ({"route": {"receiver": "sre", "group_interval": "0"}}, "must be longer than 0"),
        ({"route": {"receiver": "sre", "mute_time_intervals": ["never"]}}, "time interval 'never'"),
        ({"watchdog": {"to": ["dog"]}}, "receiver 'dog'"),
        (
            {"watchdog": {"to": ["mute"]}, "receivers": [{"name": "mute"}], "route": {"receiver": "mute"}},
            "receiver 'mute', which has no integration",
        ),
        ({"time_intervals": [{"name": "n", "time_intervals": [{"location": "Mars/X"}]}]}, "no time zone"),
        ({"templates": {}}, "template 'chat'"),
        ({"inhibit_rules": [{"equal": ["pod"]}]}, "the label 'pod'"),
        ({"time_intervals": [{"name": "n", "time_intervals": [{"months": ["brumaire"]}]}]}, "'brumaire'"),
        ({"receivers": [{"name": "sre", "console": {}}, {"name": "sre"}]}, "'sre' twice"),
        ({"hold": "1s"}, "`alerts.hold` (1s) must be longer than `alerts.route.group_wait`"),
        (
            {"route": {"receiver": "sre", "routes": [{"receiver": "sre", "group_wait": "5m"}]}},
            "longer than `alerts.route.routes.0.group_wait`",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(changes: dict[str, Any], said: str) -> None:
    changed = section(**changes)
    assert any(said in problem for problem in checked(changed).problems), checked(changed).problems
    with pytest.raises(ConfigError, match=r"alerts|webhook"):
        rules_of(changed)


def test_receivers_and_routes_that_nothing_reaches_are_warned_of() -> None:
    route = {
        "receiver": "sre",
        "routes": [{"receiver": "sre"}, {"matchers": ['team="x"'], "receiver": "mail"}],
    }
    found = checked(section(route=route, watchdog={}))
    assert found.problems == ()
    assert found.warnings == (
        "nothing reaches the receiver 'payments'",
        "nothing reaches the receiver 'mail'",
        "nothing reaches `alerts.route.routes.1`: an earlier route matches everything",
    )


def test_a_watchdog_that_would_stay_away_between_two_batches_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    dog = {"receivers": [{"name": "a", "console": {}}], "route": {"receiver": "a"}, "watchdog": {"to": ["a"]}}
    path.write_text(yaml.safe_dump({"trigger": "90s", "alerts": dog}))
    with pytest.raises(ConfigError, match=r"`alerts.watchdog.silent_after` must be at least twice"):
        load(path, {})
    path.write_text(yaml.safe_dump({"trigger": "1m", "alerts": dog}))
    assert load(path, {}).alerts.is_on


def test_no_alerts_at_all_are_fine() -> None:
    assert checked(Alerts()).problems == ()
    assert sinks_of(Settings()) == {}


def test_every_option_that_a_sink_refuses_is_reported_with_its_receiver() -> None:
    settings = Settings(
        alerts=section(receivers=[{"name": "sre", "slack": {"token": "xoxb-secret", "channel": "#kafka"}}])
    )
    with pytest.raises(
        ConfigError, match="the receiver 'sre/slack': a Slack channel is given by its id"
    ) as told:
        sinks_of(settings)
    assert "xoxb" not in str(told.value)


def test_the_plan_knows_which_ways_may_close_what_ended_unseen() -> None:
    plan = plan_of(Settings(alerts=section()), "prod")
    assert {name for name, way in plan.ways.items() if way.closes} == {"sre/slack", "sre/pagerduty"}
    assert plan.watchdog.ways == ("mail/email",)


def test_the_first_rule_that_names_a_team_says_whose_group_it_is() -> None:
    rules = [{"pattern": "pay-*", "slow_sync": "9s"}, {"pattern": "pay-*", "team": "payments"}]
    rules += [{"pattern": "pay-*", "team": "others"}, {"pattern": "*", "team": "rest"}]
    teams = Detection.model_validate({"groups": rules}).teams
    assert policy_of(section(), teams).teams == {"pay-*": "payments", "*": "rest"}


def test_paths_of_routes_outlive_a_reordering() -> None:
    text = yaml.safe_load(FULL)
    text["route"]["routes"].reverse()
    before = {route.path for route in rules_of(section()).root.walk()}
    assert {route.path for route in rules_of(Alerts(**text)).root.walk()} == before


def test_config_check_says_all_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from rebalance_monitor.cli.main import run

    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump({"alerts": yaml.safe_load(FULL)}))
    assert run(["config", "check", "-c", str(path)]) == 0
    assert "valid" in capsys.readouterr().out
    broken = yaml.safe_load(FULL)
    broken["route"]["receiver"] = "nobody"
    path.write_text(yaml.safe_dump({"alerts": broken}))
    assert run(["config", "check", "-c", str(path)]) == 2
    assert "nobody" in capsys.readouterr().err


def test_a_secret_may_stand_in_a_file(tmp_path: Path) -> None:
    secret, path = tmp_path / "token", tmp_path / "c.yaml"
    secret.write_text("xoxb-from-file\n")
    slack = {"token_file": str(secret), "channel": "C0123ABCD"}
    path.write_text(yaml.safe_dump({"alerts": {"receivers": [{"name": "a", "slack": slack}]}}))
    (receiver,) = load(path).alerts.receivers
    assert receiver.slack is not None
    assert receiver.slack.token is not None
    assert receiver.slack.token.get_secret_value() == "xoxb-from-file"


@pytest.mark.parametrize(
    ("receiver", "said"),
    [
        ({"pagerduty": {"routing_key": " "}}, "`routing_key` is empty"),
        ({"slack": {"webhook_url": "hooks.example/s3cret"}}, "`webhook_url` must be an address"),
        ({"webhook": {"url": "ftp://hooks.example/s3cret"}}, "`url` must be an address"),
        ({"alertmanager": {"urls": ["alertmanager:9093"]}}, "`urls` must be an address"),
        ({"pagerduty": {"routing_key": "s3cret", "base_url": "events"}}, "`base_url` must be an address"),
    ],
)
def test_an_empty_secret_or_no_address_is_refused_before_anything_is_sent_and_never_shown(
    tmp_path: Path, receiver: dict[str, Any], said: str
) -> None:
    file = tmp_path / "monitor.yaml"
    file.write_text(yaml.safe_dump({"alerts": {"receivers": [{"name": "sre", **receiver}]}}))
    with pytest.raises(ConfigError, match=said) as caught:
        load(file, {})
    assert "s3cret" not in str(caught.value)


def test_an_empty_secret_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("\n")
    with pytest.raises(ValueError, match="`routing_key` is empty"):
        section(receivers=[{"name": "sre", "pagerduty": {"routing_key_file": str(tmp_path / "key")}}])


@pytest.mark.parametrize(
    ("proxy", "said"),
    [
        ("http://user:hunter2@\N{SNOWMAN}.example:80", "`proxy` cannot be used: its address is malformed"),
        ("socks5://user:hunter2@host:1080", "`proxy` cannot be used: a SOCKS proxy needs the Python package"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_reported_with_its_receiver(proxy: str, said: str) -> None:
    hook = {"url": "https://hooks.example/x", "proxy": proxy}
    made = Settings(alerts=section(receivers=[{"name": "hook", "webhook": hook}], watchdog={}))
    with pytest.raises(ConfigError, match="the receiver 'hook/webhook'") as caught:
        sinks_of(made)
    assert said in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_proxy_of_the_environment_is_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5h://127.0.0.1:1080")
    hook = {"url": "https://hooks.example/x"}
    with pytest.raises(ConfigError, match="the proxy that the environment names cannot be used"):
        sinks_of(Settings(alerts=section(receivers=[{"name": "hook", "webhook": hook}], watchdog={})))


def test_a_webhook_may_name_a_ready_made_template_and_one_of_its_own_goes_before_it() -> None:
    hook = {"name": "sre", "webhook": {"url": "https://hooks.example/x", "template": "opsgenie"}}
    ready = section(receivers=[hook], route={"receiver": "sre"}, watchdog={})
    assert checked(ready).problems == ()
    (_, way) = ways_of(ready)["sre/webhook"]
    assert service_of(ready, way) is SERVICES["opsgenie"]
    assert plan_of(Settings(alerts=ready), "prod").ways["sre/webhook"].closes
    own = section(receivers=[hook], route={"receiver": "sre"}, watchdog={}, templates={"opsgenie": "{}"})
    assert service_of(own, way) is None
    assert not plan_of(Settings(alerts=own), "prod").ways["sre/webhook"].closes
