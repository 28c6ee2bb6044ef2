"""What can be checked of deploy/ without the platforms: that it is valid, and says what the code knows."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from rebalance_monitor.config.load import load
from rebalance_monitor.coordinator.kinds import Kind
from rebalance_monitor.dashboard.findings_table import write_findings
from tests.alerts.findings import finding

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
SCRIPTS = sorted(DEPLOY.glob("**/*.sh"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_valid_and_may_be_run(path: Path) -> None:
    subprocess.run(["sh", "-n", path], check=True)
    assert path.stat().st_mode & 0o111


@pytest.mark.parametrize("part", ["base", "spark-operator"])
def test_the_monitors_own_configuration_is_valid_there(part: str, tmp_path: Path) -> None:
    text = (KUBERNETES / part / "monitor.yaml").read_text()
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    for name in ("jaas", "ca.pem", "token"):
        (secrets / name).write_text("ScramLoginModule is a secret;")
    (config := tmp_path / "monitor.yaml").write_text(
        text.replace("/run/secrets/rebalance-monitor", str(secrets))
    )
    assert load(config).storage.path == "/data"


def objects(part: str) -> dict[str, dict[str, Any]]:
    """Kind -> object of the kustomization; as kustomize builds them, where it is at hand."""
    folder = KUBERNETES / part
    if shutil.which("kubectl"):
        done = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, check=True)
        return {tree["kind"]: tree for tree in yaml.safe_load_all(done.stdout)}
    names = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    trees = (tree for name in names for tree in yaml.safe_load_all((folder / name).read_text()))
    return {tree["kind"]: tree for tree in trees}


def test_the_plain_driver_is_one_pod_that_may_do_nothing_but_its_work() -> None:
    found = objects("base")
    spec = found["StatefulSet"]["spec"]
    pod, labels = spec["template"]["spec"], spec["template"]["metadata"]["labels"]
    (container,) = pod["containers"]
    assert spec["replicas"] == 1
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    for kind in ("StatefulSet", "PodDisruptionBudget", "ServiceMonitor"):
        assert found[kind]["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert found["Service"]["spec"]["selector"].items() <= labels.items()
    assert found["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    assert {probe for probe in container if probe.endswith("Probe")} == {
        "startupProbe",
        "livenessProbe",
        "readinessProbe",
    }
    names = {volume["name"] for volume in pod["volumes"]} | {"data"}
    assert {mount["name"] for mount in container["volumeMounts"]} == names


def test_the_spark_application_mounts_what_it_reads() -> None:
    spec = objects("spark-operator")["SparkApplication"]["spec"]
    assert spec["sparkConf"]["spark.sql.streaming.kafka.useDeprecatedOffsetFetching"] == "true"
    volumes = {volume["name"] for volume in spec["volumes"]}
    for role in ("driver", "executor"):
        assert {mount["name"] for mount in spec[role]["volumeMounts"]} <= volumes
        assert spec[role]["securityContext"]["runAsNonRoot"] is True


def test_the_image_runs_as_nobody_special_and_names_what_exists() -> None:
    text = (KUBERNETES / "Dockerfile").read_text()
    assert re.findall(r"^USER (.*)$", text, re.MULTILINE)[-1] == "10001:10001"
    for name in re.findall(r"-r (\S+)", text):
        assert (DEPLOY.parent / name).exists()


def test_the_unit_is_what_systemd_takes(tmp_path: Path) -> None:
    text = (DEPLOY / "systemd" / "rebalance-monitor.service").read_text()
    sections = re.findall(r"^\[(\w+)\]$", text, re.MULTILINE)
    assert sections == ["Unit", "Service", "Install"]
    assert "RestartPreventExitStatus=2" in text
    (path := tmp_path / "rebalance-monitor.service").write_text(
        re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", text, flags=re.MULTILINE)
    )
    if shutil.which("systemd-analyze"):
        done = subprocess.run(
            ["systemd-analyze", "verify", path], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_the_databricks_job_starts_the_verb_with_settings_that_exist() -> None:
    bundle = yaml.safe_load((DEPLOY / "databricks" / "databricks.yml").read_text())
    job = yaml.safe_load((DEPLOY / "databricks" / "resources" / "job.yml").read_text())
    ((task,),) = [found["tasks"] for found in job["resources"]["jobs"].values()]
    words = task["python_wheel_task"]["parameters"]
    given = dict(word.split("=", 1) for word in words if "=" in word)
    assert words[0] == "run"
    values = {name: variable["default"] for name, variable in bundle["variables"].items()}
    flags = {
        key: re.sub(r"\$\{var\.(\w+)\}", lambda m: str(values[m[1]]), text) for key, text in given.items()
    }
    flags["web.enabled"] = yaml.safe_load(flags["web.enabled"])
    assert load(flags=flags).storage.path == values["volume"]


@pytest.mark.spark
def test_the_notebooks_questions_are_answered(spark: SparkSession, tmp_path: Path) -> None:
    write_findings(tmp_path, [finding(Kind.SESSION_TIMEOUT), finding(Kind.REBALANCE)], "query", 0)
    text = (DEPLOY / "databricks" / "src" / "questions.sql").read_text()
    cells = [
        cell.strip()
        for cell in text.split("-- COMMAND ----------")
        if not re.search(r"^-- (MAGIC|Databricks)", cell.strip())
    ]
    view, *questions = cells
    spark.sql(re.sub(r"'/Volumes[^']*'", f"'{tmp_path}'", view))
    assert len(questions) == 3
    for question in questions:
        spark.sql(question).collect()
