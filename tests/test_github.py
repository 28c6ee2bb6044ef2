"""The files of .github: workflows with no more rights than they need, and templates that ask."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.programs import installed
from tests.test_docs import _unknown

ROOT = Path(__file__).resolve().parents[1]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted(GITHUB.glob("workflows/*.yml"))
TEMPLATES = sorted(set(GITHUB.glob("ISSUE_TEMPLATE/*.yml")) - {GITHUB / "ISSUE_TEMPLATE" / "config.yml"})


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


@pytest.mark.slow
def test_actionlint_finds_no_fault_in_the_workflows() -> None:
    done = subprocess.run([installed("actionlint"), *WORKFLOWS], cwd=ROOT, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_may_read_only_unless_a_job_says_more_and_runs_targets_that_there_are(path: Path) -> None:
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"]
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout"):
                assert step["with"]["persist-credentials"] is False
            for target in re.findall(r"\bmake ([a-z-]+)", step.get("run", "")):
                assert target in targets
            for script in re.findall(r"\b(?:tools|\.ci)/[\w.-]+", step.get("run", "")):
                assert (ROOT / script).exists()


def test_every_python_that_is_supported_is_tried() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    pythons = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project)
    jobs = read(GITHUB / "workflows" / "test.yml")["jobs"]
    assert jobs["check"]["strategy"]["matrix"]["python"] == pythons


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_a_report_of_a_fault_asks_for_what_doctor_says_and_for_a_capture(path: Path) -> None:
    asked = {part["id"]: part for part in read(path)["body"] if "id" in part}
    required = {name for name, part in asked.items() if part.get("validations", {}).get("required")}
    if path.stem != "wish":
        assert "doctor" in required
        assert "capture" in asked
    if path.stem == "wrong-finding":
        assert "capture" in required
    for line in re.findall(r"`rebalance-monitor ([^`]*)`", path.read_text(encoding="utf-8")):
        assert not _unknown(" ".join(line.split())), line
