"""The hand-written pages agree with the code and with each other."""

import re
from pathlib import Path

import pytest

from rebalance_monitor.cli.verbs import VERBS
from rebalance_monitor.config.load import load
from tools import docs

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_the_readme_lists_every_verb() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([a-z]+)[ `]", readme.partition("## Verbs")[2], re.MULTILINE)
    assert listed == list(VERBS)


def test_the_configuration_in_the_readme_is_valid(tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "jaas").write_text("login;", encoding="utf-8")
    path = tmp_path / "monitor.yaml"
    path.write_text(example.replace("/run/secrets/jaas", str(tmp_path / "jaas")), encoding="utf-8")
    assert load(path).kafka.client_properties()["sasl.jaas.config"] == "login;"


def test_every_generated_file_is_current() -> None:
    assert docs.stale() == []
