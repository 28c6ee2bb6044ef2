"""The import table of docs/architecture.md holds, and the linter that proves it sees all of the code."""

import re
import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LINTER = PROJECT["tool"]["importlinter"]
PARTS = sorted(path.parent.name for path in ROOT.glob("*/py.typed"))
MAY_IMPORT = {
    "decoders": set(),
    "coordinator": {"decoders"},
    "config": set(),
    "cluster": {"decoders", "config"},
    "checkpoints": {"coordinator", "decoders", "config"},
    "alerts": {"coordinator", "checkpoints", "config"},
    "dashboard": {"coordinator", "checkpoints", "config"},
    "engine": {"decoders", "coordinator", "config", "cluster", "checkpoints", "alerts", "dashboard"},
    "streaming": {
        "decoders",
        "coordinator",
        "config",
        "cluster",
        "checkpoints",
        "alerts",
        "dashboard",
        "engine",
    },
    "lab": {"decoders", "coordinator", "cluster", "config"},
    "cli": set(PARTS),
}


def test_the_import_contracts_hold() -> None:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr

    analyzed = re.search(r"Analyzed (\d+) files", done.stdout)
    assert analyzed is not None
    assert int(analyzed[1]) >= sum(len(list((ROOT / part).rglob("*.py"))) for part in PARTS)


def test_no_module_imports_itself_through_others_not_even_for_its_types() -> None:
    graph = grimp.build_graph(*LINTER["root_packages"], cache_dir=None)
    imported = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert sum(map(len, imported.values())) > len(imported)
    # Raises CycleError, which names the circle.
    TopologicalSorter(imported).prepare()


def test_every_part_is_looked_at() -> None:
    assert sorted(LINTER["root_packages"]) == [f"rebalance_monitor.{part}" for part in PARTS]


def test_the_contracts_say_what_the_table_says() -> None:
    contracts = {contract["id"]: contract for contract in LINTER["contracts"]}
    for part, allowed in MAY_IMPORT.items():
        if part == "cli":
            continue
        forbidden = {f"rebalance_monitor.{other}" for other in set(PARTS) - allowed - {part}}
        assert contracts[part]["source_modules"] == [f"rebalance_monitor.{part}"]
        assert set(contracts[part]["forbidden_modules"]) == forbidden


def test_the_page_has_the_same_table() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)/` \|[^|]*\| (.*) \|$", page, re.MULTILINE)
    on_page = {part: set(re.findall(r"`(\w+)`", may)) for part, may in rows}
    assert on_page == {**MAY_IMPORT, "cli": set()}
    assert dict(rows)["cli"] == "everything"
