"""Audits where the job is deployed: one switch in each place, wired to the same hash-pinned requirements."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.containerfile import runs

ROOT = Path(__file__).resolve().parents[2]
HOWTO = ROOT / "docs" / "howto"
SWITCH = "REQUIREMENTS=quality"
CHOICES = pytest.mark.parametrize(
    ("switched", "name"), [({}, "demo"), (dict([SWITCH.split("=")]), "quality")], ids=["off", "on"]
)
# Stands for Python: makes its own environment, notes what pip is asked for, and writes the bill of materials.
PYTHON = """#!/bin/sh
echo "$@" >> "$NOTES"
case "$*" in
"-m venv "*) mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
*/tools/sbom.py*) mkdir -p "${1%/*}/../build" && echo "$2" > "${1%/*}/../build/sbom.json" ;;
esac
"""


@CHOICES
def test_the_yarn_script_packs_the_given_files(tmp_path: Path, switched: dict[str, str], name: str) -> None:
    script = tmp_path / "deploy" / "yarn" / "pack.sh"
    script.parent.mkdir(parents=True)
    shutil.copy(ROOT / "deploy" / "yarn" / "pack.sh", script)
    (python := tmp_path / "python").write_text(PYTHON)
    python.chmod(0o755)
    notes, archive = tmp_path / "notes", tmp_path / "environment.tar.gz"
    environment = {key: value for key, value in os.environ.items() if key != "REQUIREMENTS"}
    subprocess.run(
        [script, archive],
        env={**environment, "PYTHON": str(python), "NOTES": str(notes), **switched},
        check=True,
        capture_output=True,
    )
    install, *_ = re.findall(r"^-m pip .*--require-hashes (.*)$", notes.read_text(), re.MULTILINE)
    pinned = f"{tmp_path}/requirements/{name}.txt"
    assert install == f"-r {tmp_path}/requirements/build.txt -r {pinned}"
    listed = subprocess.run(["tar", "-xzOf", archive, "./sbom.json"], check=True, capture_output=True)
    assert listed.stdout.decode().strip() == pinned
    assert (ROOT / "requirements" / f"{name}.txt").exists()


@CHOICES
def test_the_image_is_built_with_what_its_argument_says(switched: dict[str, str], name: str) -> None:
    commands = runs("spark-build", **switched)
    assert f"-r requirements/build.txt -r requirements/{name}.txt" in commands
    assert f"tools/sbom.py requirements/{name}.txt" in commands


def libraries(text: str) -> list[dict[str, Any]]:
    ((task,),) = [job["tasks"] for job in yaml.safe_load(text)["resources"]["jobs"].values()]
    found: list[dict[str, Any]] = task["libraries"]
    return found


def test_the_databricks_job_has_a_line_for_audits_within_the_range_of_the_extra() -> None:
    text = (ROOT / "deploy" / "databricks" / "resources" / "job.yml").read_text(encoding="utf-8")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    of_spark = [{"pypi": {"package": text}} for text in extras["spark"] if not text.startswith("pyspark")]
    assert libraries(text) == [{"whl": "../dist/*.whl"}, *of_spark]
    switched = re.sub(r"# (- pypi:)", r"\1", text)
    wanted = [{"pypi": {"package": text}} for text in extras["quality"]]
    assert libraries(switched) == [*libraries(text), *(one for one in wanted if one not in of_spark)]


@pytest.mark.parametrize(
    ("page", "says"),
    [
        ("kubernetes.md", f"`--build-arg {SWITCH}`"),
        ("yarn.md", f"{SWITCH} deploy/yarn/pack.sh"),
        ("systemd.md", "`requirements/quality.txt`"),
        ("databricks.md", "`- pypi:`"),
    ],
)
def test_every_page_on_an_install_says_how_audits_are_switched_on(page: str, says: str) -> None:
    text = (HOWTO / page).read_text(encoding="utf-8")
    assert says in text
    assert "(../tables.md#contracts)" in text
