"""deploy/databricks without the platform: job, targets and notebook are valid and say what the code knows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from rebalance_monitor.config.load import load
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.dashboard.tables.findings_table import write_findings
from tests.alerts.support.findings import finding

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"


def test_the_databricks_job_starts_the_verb_with_settings_that_exist() -> None:
    bundle = yaml.safe_load((DEPLOY / "databricks" / "databricks.yml").read_text())
    job = yaml.safe_load((DEPLOY / "databricks" / "resources" / "job.yml").read_text())
    ((task,),) = [found["tasks"] for found in job["resources"]["jobs"].values()]
    words = task["python_wheel_task"]["parameters"]
    given = dict(word.split("=", 1) for word in words if "=" in word)
    assert words[0] == "run"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert task["python_wheel_task"]["package_name"] == project["name"]
    assert task["python_wheel_task"]["entry_point"] in project["scripts"]
    values = {name: variable["default"] for name, variable in bundle["variables"].items()}
    flags = {
        key: re.sub(r"\$\{var\.(\w+)\}", lambda m: str(values[m[1]]), text) for key, text in given.items()
    }
    flags["web.enabled"] = yaml.safe_load(flags["web.enabled"])
    assert load(flags=flags).storage.path == values["volume"]


def test_every_productive_target_of_the_bundle_says_where_its_only_copy_lies() -> None:
    """The Databricks CLI refuses a target of mode production without."""
    targets = yaml.safe_load((DEPLOY / "databricks" / "databricks.yml").read_text())["targets"]
    productive = [target for target in targets.values() if target["mode"] == "production"]
    assert len(productive) == 2
    for target in productive:
        assert "${bundle.target}" in target["workspace"]["root_path"]


def test_the_bundles_wheel_is_built_by_what_is_there_in_the_place_of_an_older_one(tmp_path: Path) -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(lambda name: not name.startswith(("docs/", "tests/")), listed.stdout.splitlines()):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tmp_path / name)
    (dist := tmp_path / "deploy" / "databricks" / "dist").mkdir()
    (dist / "rebalance_monitor-0.0.1-py3-none-any.whl").touch()
    bundle = yaml.safe_load((DEPLOY / "databricks" / "databricks.yml").read_text())
    command = bundle["artifacts"]["monitor"]["build"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    # An index that nothing answers at: an isolated build would ask it for its backend.
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_RETRIES": "0", "PIP_FIND_LINKS": ""}
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=tmp_path,
        env={**os.environ, "PATH": path, **nowhere},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert [wheel.name for wheel in dist.iterdir()] == [f"rebalance_monitor-{version}-py3-none-any.whl"]
    assert "-r requirements/build.txt" in (ROOT / "docs" / "howto" / "databricks.md").read_text()


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
