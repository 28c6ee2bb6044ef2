"""Draws which folder imports which, for every part, as Mermaid, into docs/architecture.md.

Only arrows that no longer way implies are drawn: `shard → classic → state` needs no `shard → state`. The
graph is import-linter's own (grimp), so the picture shows what the contracts in pyproject.toml are held to.
"""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[2]
PREFIX = "rebalance_monitor."
Arrows = Mapping[str, set[str]]

PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- begin: make structure -->", "<!-- end: make structure -->"


def architecture_markdown() -> str:
    """Return the architecture page with its pictures drawn anew."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{_pictures()}\n{END}{after}"


def _pictures() -> str:
    """Return one picture of the parts, and one of each part's folders."""
    parts = _parts()
    graph = grimp.build_graph(*parts, include_external_packages=False, cache_dir=None)
    text = ["### Parts\n", _picture(reduced(_arrows(graph, PREFIX[:-1], parts)))]
    for part in parts:
        folders = _folders(graph, part)
        arrows = reduced(_arrows(graph, part, folders))
        if len(folders) > 1 and any(arrows.values()):
            modules = sum(1 for name in graph.modules if name.startswith(part))
            text += [f"### {part.removeprefix(PREFIX)} ({modules} modules)\n", _picture(arrows)]
    return "\n".join(text)


def _parts() -> list[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return sorted(settings["tool"]["importlinter"]["root_packages"])


def _folders(graph: grimp.ImportGraph, part: str) -> list[str]:
    return sorted(graph.find_children(part))


def _arrows(graph: grimp.ImportGraph, root: str, places: Iterable[str]) -> dict[str, set[str]]:
    """Return place -> places that it imports from; `places` are children of `root`."""
    known = set(places)
    depth = root.count(".") + 2

    def place(module: str) -> str:
        return ".".join(module.split(".")[:depth])

    arrows: dict[str, set[str]] = {name: set() for name in known}
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            one, other = place(module), place(imported)
            if one != other and one in known and other in known:
                arrows[one].add(other)
    return arrows


def reduced(arrows: Arrows) -> dict[str, set[str]]:
    """Return the arrows without those that a longer way implies (the graph has no circles)."""
    beyond: dict[str, set[str]] = {}

    def reach(name: str) -> set[str]:
        if name not in beyond:
            beyond[name] = set().union(*({other} | reach(other) for other in arrows[name]), set())
        return beyond[name]

    return {
        name: {one for one in others if not any(one in reach(other) for other in others - {one})}
        for name, others in arrows.items()
    }


def _picture(arrows: Arrows) -> str:
    lines = ["```mermaid", "flowchart TD"]
    for name in sorted(arrows):
        short = name.rpartition(".")[2]
        lines += [f"    {short}"] if not arrows[name] else []
        lines += [f"    {short} --> {other.rpartition('.')[2]}" for other in sorted(arrows[name])]
    return "\n".join([*lines, "```", ""])
