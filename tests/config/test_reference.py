"""The generated reference is current, complete and loads as the defaults."""

import re
from dataclasses import fields
from pathlib import Path

import yaml

from rebalance_monitor.config.detection import Detection, GroupRule, SeverityOverride
from rebalance_monitor.config.durations import Duration
from rebalance_monitor.config.load import load
from rebalance_monitor.config.model import Settings
from rebalance_monitor.config.reference import reference_markdown, reference_yaml
from rebalance_monitor.coordinator import settings as coordinator

ROOT = Path(__file__).resolve().parents[2]


def test_the_committed_reference_file_is_current() -> None:
    assert (ROOT / "config" / "reference.yaml").read_text(encoding="utf-8") == reference_yaml(), (
        "run make docs"
    )


def test_the_committed_reference_page_is_current() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert page == reference_markdown(), "run make docs"


def test_the_reference_file_means_the_defaults() -> None:
    assert load(ROOT / "config" / "reference.yaml") == Settings()
    assert load(ROOT / "config" / "reference.yaml").detection.model_fields_set == set()


def uncommented() -> str:
    examples = re.compile(r"  # (?=sasl|security|spark)")
    kept = [line for line in reference_yaml().splitlines() if not examples.match(line)]
    return re.sub(r"^( *)# ", r"\1", "\n".join(kept), flags=re.MULTILINE)


def test_the_uncommented_reference_file_means_the_defaults_too(tmp_path: Path) -> None:
    path = tmp_path / "all.yaml"
    path.write_text(uncommented(), encoding="utf-8")
    assert load(path) == Settings()


def test_the_reference_file_names_every_key() -> None:
    tree = yaml.safe_load(uncommented())
    assert set(tree) == set(Settings.model_fields)
    assert set(tree["detection"]) == set(Detection.model_fields)


def test_every_key_is_described() -> None:
    assert "| None |" not in reference_markdown()


def test_detection_has_the_names_and_defaults_of_the_coordinator() -> None:
    every = [
        field for field in fields(coordinator.DetectionSettings) if field.name not in coordinator.UNCONFIGURED
    ]
    theirs = {field.name.removesuffix("_ms"): field.default for field in every}
    ours = {key: one.ms if isinstance(one, Duration) else one for key, one in Detection()}
    assert ours == theirs
    durations = {key for key, one in Detection.model_fields.items() if "Duration" in str(one.annotation)}
    assert durations == {field.name.removesuffix("_ms") for field in every if field.name.endswith("_ms")}


def test_overrides_have_the_names_of_the_coordinator() -> None:
    for ours, theirs in (
        (GroupRule, coordinator.GroupOverride),
        (SeverityOverride, coordinator.SeverityOverride),
    ):
        assert set(ours.model_fields) - {"team"} == {
            field.name.removesuffix("_ms") for field in fields(theirs)
        }
