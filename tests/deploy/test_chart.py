"""The Helm chart by Helm: every engine renders, wrong values are refused, the manifests are current."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.programs import installed
from tools.chart import CHART, KUBERNETES, manifests

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow
EXAMPLES = sorted(CHART.glob("examples/*.yaml"))


def helm(verb: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [installed("helm"), *verb.split(), str(CHART), "--kube-version", KUBERNETES, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def rendered(example: Path, *words: str) -> dict[str, dict[str, object]]:
    done = helm("template team-a", "--values", str(example), *words)
    assert done.returncode == 0, done.stderr
    return {tree["kind"]: tree for tree in yaml.safe_load_all(done.stdout)}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_helm_finds_no_fault_in_the_chart(example: Path) -> None:
    done = helm("lint", "--strict", "--values", str(example))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_manifests_are_what_the_chart_gives() -> None:
    for path, text in manifests(installed("helm")).items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run make chart"


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("config.kafka.bootstrap_servers=", "bootstrap_servers"),
        ("config.detection.storm_windows=5m", "storm_windows"),
        ("config.engine=spark", "engine"),
        ("engine=flink", "engine"),
        ("resource.limits.memory=2Gi", "resource"),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(words: str, names: str) -> None:
    done = helm("template team-a", "--values", str(CHART / "examples" / "embedded.yaml"), "--set", words)
    assert done.returncode != 0
    assert names in done.stderr


def test_the_spark_operator_is_not_installed_without_the_claim_that_its_pods_share() -> None:
    example = str(CHART / "examples" / "spark-operator.yaml")
    done = helm("template team-a", "--values", example, "--set", "persistence.existingClaim=")
    assert "persistence.existingClaim" in done.stderr


def test_two_releases_in_one_namespace_share_no_object() -> None:
    for example in EXAMPLES:
        names = {str(tree["metadata"]["name"]) for tree in rendered(example).values()}  # type: ignore[index]
        assert all(name.startswith("team-a") for name in names), names


def test_what_the_values_say_wins_over_what_the_chart_knows() -> None:
    words = (
        "--set",
        "config.web.port=9000,config.storage.path=s3://bucket/monitor,persistence.enabled=false",
    )
    for example in EXAMPLES:
        found = rendered(example, *words)
        config = yaml.safe_load(found["ConfigMap"]["data"]["monitor.yaml"])  # type: ignore[index]
        assert config["storage"]["path"] == "s3://bucket/monitor"
        assert config["web"] == {
            "host": "0.0.0.0",  # noqa: S104 - the pod's address, behind a token
            "port": 9000,
            "token_file": "/run/secrets/rebalance-monitor/token",
        }
        text = yaml.safe_dump_all(found.values())
        assert "containerPort: 9000" in text
        assert "claim" not in text.casefold().replace("persistentvolumeclaims", "")
