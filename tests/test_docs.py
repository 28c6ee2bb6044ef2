"""The hand-written pages agree with the code and with each other."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from rebalance_monitor.cli.reference import cli_markdown
from rebalance_monitor.cli.registry import VERBS, command_of
from rebalance_monitor.config.load import load
from tools import docs

ROOT = Path(__file__).resolve().parents[1]
TEMPLATES = set(ROOT.glob("docs/templates/**/*.md"))
PAGES = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")} - TEMPLATES)
LINK = re.compile(r"\]\((?!https?://)([^)#]*)(?:#([^)]*))?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        there = page.parent / target if target else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), (target, anchor)


def anchors(page: Path) -> set[str]:
    """What a link may name behind its `#`: the headings, as the site makes anchors of them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def test_the_readme_lists_every_verb() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([a-z]+)[ `]", readme.partition("## Verbs")[2], re.MULTILINE)
    assert listed == list(VERBS)


def test_the_page_of_verbs_has_every_command_however_deep_it_lies_with_all_its_options() -> None:
    sections = dict(
        re.findall(r"^##+ `([a-z ]+)`\n(.*?)(?=^##|\Z)", cli_markdown(), re.MULTILINE | re.DOTALL)
    )
    for name in VERBS:
        command = command_of(name)
        for words, leaf in _leaves(name, command):
            named = [one for parameter in leaf.params for one in parameter.opts if one.startswith("--")]
            assert [one for one in named if not re.search(rf"{one}[ `]", sections[words])] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_command_on_a_page_is_one_that_there_is(page: Path) -> None:
    """Verbs, their parts and options; what stands for a value (`GROUP`, `…`) is not looked at."""
    text = page.read_text(encoding="utf-8")
    fenced = "\n".join(re.findall(r"^```(?:sh|console)\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    lines = re.findall(r"^(?:\$ )?rebalance-monitor (.*)$", fenced, re.MULTILINE)
    for line in [*lines, *re.findall(r"`rebalance-monitor ([^`]*)`", text)]:
        wrong = _unknown(line)
        assert not wrong, (line, wrong)


SHOWN = re.compile(r"^ *\$ (.*)\n((?: *(?!\$ |```)\S.*\n)+)", re.MULTILINE)


@pytest.mark.parametrize(
    ("command", "shown"), SHOWN.findall((ROOT / "docs" / "basics.md").read_text(encoding="utf-8"))
)
def test_what_the_basics_show_of_the_lab_is_what_the_command_says(command: str, shown: str) -> None:
    """Line by line, in this order; `…` stands for the rest of a line, a part of it, or lines."""
    if "jq " in command and not shutil.which("jq"):
        pytest.skip("no jq here")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {**os.environ, "LAB": str(ROOT / "tests" / "fixtures" / "scenarios"), "PATH": path}
    told = subprocess.run(
        ["sh", "-c", command],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    said = iter([re.sub(r" +", " ", line).strip() for line in told.stdout.splitlines()])
    lines = [re.sub(r" +", " ", line).strip() for line in shown.splitlines()]
    lines = [line for line in lines if line != "…"]
    assert lines
    for line in lines:
        wanted = re.compile(".*".join(map(re.escape, line.split("…"))))
        assert any(wanted.fullmatch(one) for one in said), line


def _unknown(line: str) -> list[str]:
    """Words of a command line (without the program) that click would not take."""
    words = re.split(r" +[#|>]| {2,}", line)[0].split()
    if not words or words[0].startswith(("-", "VERB", "[", "…")) or "|" in words[0]:
        return []
    verb, *rest = words
    if verb not in VERBS:
        return [verb]
    command = command_of(verb)
    while isinstance(command, click.Group) and rest:
        part, *rest = rest
        if part not in command.commands and "|" not in part:
            return [part]
        command = command.commands.get(part, click.Command("several"))
    known = {one for parameter in command.params for one in parameter.opts}
    options = [word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word)]
    return [one for one in options if one not in known] if known else []


def _leaves(words: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield words, command
    else:
        for name, each in command.commands.items():
            yield from _leaves(f"{words} {name}", each)


MOST_WORDS, MOST_WORDS_TO_A_CAUSE = 45_000, 2_500


def words(page: Path) -> int:
    """Words of a page, code and tables included, diagrams not; a word has a letter or a digit."""
    text = re.sub(r"```mermaid\n.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return sum(bool(re.search(r"\w", word)) for word in text.split())


def navigation() -> list[Path]:
    """The pages in the navigation of the site."""
    listed = re.findall(
        r"^ +- [^\n]*: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE
    )
    return [ROOT / "docs" / name for name in listed]


def test_the_pages_in_the_navigation_can_be_read() -> None:
    assert sum(map(words, navigation())) <= MOST_WORDS


def test_every_page_is_in_the_navigation_but_measurements_samples_and_decisions() -> None:
    beside = {"measurements", "adr", "templates", "samples"}
    pages = {page for page in ROOT.glob("docs/**/*.md") if page.parent.name not in beside}
    assert pages - TEMPLATES == set(navigation())


def test_the_way_from_the_readme_to_why_it_says_97_percent_is_short() -> None:
    way = ["README.md", "docs/detection.md", "docs/accuracy.md"]
    assert sum(words(ROOT / page) for page in way) <= MOST_WORDS_TO_A_CAUSE


QUESTIONS = {
    "how do I deploy it on YARN": (["docs/howto/yarn.md"], "\n## ", ["pack.sh", "submit.sh", "storage:"]),
    "what does poll_interval_exceeded 0.9 mean, and what do I do": (
        ["docs/detection.md#all-kinds", "docs/kinds/poll_interval_exceeded.md"],
        "\n## Details",
        ["did not call `poll`", "0.9 it was right", "**First:**", "max.poll.records"],
    ),
    "how sure can I be": (["docs/accuracy.md"], "\n- *Others under", ["0.8 and more", "99 of 100"]),
    "how do I set storm thresholds for one team": (
        ["docs/howto/tune-a-team.md"],
        None,
        ["storm_threshold: 20", "team: payments", "config thresholds"],
    ),
    "what does it cost": (["docs/costs.md"], "\n## What grows", ["10,000", "2.1 GB", "Clients pay nothing"]),
}
"""question -> where the README leads, where the answer is complete, and what it holds."""


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_of_a_new_user_is_answered_within_three_clicks_and_400_words(question: str) -> None:
    way, end, parts = QUESTIONS[question]
    page = ROOT / "README.md"
    for target in way:
        links = {
            (page.parent / there).resolve().as_posix() + (f"#{anchor}" if anchor else "")
            for there, anchor in LINK.findall(page.read_text(encoding="utf-8"))
        }
        assert (ROOT / target).as_posix() in links, target
        page = ROOT / target.partition("#")[0]
    answer = page.read_text(encoding="utf-8").partition(end or "\0")[0]
    assert [part for part in parts if part not in answer] == []
    assert len(way) <= 3
    assert sum(bool(re.search(r"\w", word)) for word in answer.split()) <= 400


@pytest.mark.parametrize("name", ["docs/howto/systemd.md", "docs/costs.md"])
def test_a_whole_configuration_on_a_page_is_valid(tmp_path: Path, name: str) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", (ROOT / name).read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "monitor.yaml").write_text(example, encoding="utf-8")
    assert load(tmp_path / "monitor.yaml").detection.always_on


def test_the_configuration_in_the_readme_is_valid(tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "jaas").write_text("login;", encoding="utf-8")
    path = tmp_path / "monitor.yaml"
    path.write_text(example.replace("/run/secrets/jaas", str(tmp_path / "jaas")), encoding="utf-8")
    assert load(path).kafka.client_properties()["sasl.jaas.config"] == "login;"


def test_every_generated_file_is_current() -> None:
    assert docs.stale() == []
