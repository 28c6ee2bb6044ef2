"""deploy/compose without containers: its files fit each other, the image, the boards and the code."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from rebalance_monitor.config.load import load
from tests.deploy.containerfile import stages, variables, words
from tests.programs import installed

COMPOSE = Path(__file__).resolve().parents[2] / "deploy" / "compose"
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((COMPOSE / "compose.yaml").read_text())["services"]


def mounts(service: str) -> dict[str, Path]:
    """Path in the container -> file or folder of the repository."""
    found = [volume.split(":") for volume in SERVICES[service].get("volumes", ())]
    return {inside: (COMPOSE / here).resolve() for here, inside, *_ in found if here.startswith(".")}


@pytest.mark.parametrize("service", SERVICES)
def test_whatever_is_mounted_is_there_and_every_port_is_on_the_loopback_interface(service: str) -> None:
    assert [path for path in mounts(service).values() if not path.exists()] == []
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[service].get("ports", ()))


def test_the_monitor_is_the_image_and_its_configuration_is_valid(tmp_path: Path) -> None:
    service, files = SERVICES["monitor"], mounts("monitor")
    assert service["build"]["target"] in stages()
    assert (COMPOSE / service["build"]["context"] / service["build"]["dockerfile"]).exists()
    (command,) = [each for each in words("embedded", "CMD") if each]
    assert any("/etc/rebalance-monitor/monitor.yaml" in word for word in command)
    text = files["/etc/rebalance-monitor/monitor.yaml"].read_text()
    inside = "/run/secrets/rebalance-monitor/token"
    (path := tmp_path / "monitor.yaml").write_text(text.replace(inside, str(files[inside])))
    settings = load(path)
    assert settings.engine == variables("embedded")["REBALANCE_MONITOR_ENGINE"]
    assert settings.web.secret() == files[inside].read_text().strip()
    assert f"{settings.web.port}:{settings.web.port}" in service["ports"][0]
    listeners = SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert f"INSIDE://{settings.kafka.bootstrap_servers}" in listeners


def test_grafana_shows_every_board_from_the_prometheus_beside_it() -> None:
    files = mounts("grafana")
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    (provider,) = yaml.safe_load((COMPOSE / "grafana-boards.yaml").read_text())["providers"]
    folder = provider["options"]["path"]
    assert (files[folder] / Path(home).relative_to(folder)).exists()
    (source,) = yaml.safe_load((COMPOSE / "grafana-datasource.yaml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    (scrape,) = yaml.safe_load((COMPOSE / "prometheus.yml").read_text())["scrape_configs"]
    assert scrape["static_configs"] == [{"targets": ["monitor:8377"]}]
    # The rules name this job.
    assert scrape["job_name"] == "rebalance-monitor"


@pytest.mark.slow
def test_prometheus_takes_its_configuration_with_the_rules(tmp_path: Path) -> None:
    for inside, path in mounts("prometheus").items():
        text = path.read_text().replace("/run/secrets/rebalance-monitor/token", str(COMPOSE / "token"))
        (tmp_path / Path(inside).name).write_text(text)
    command = [installed("promtool"), "check", "config", str(tmp_path / "prometheus.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
