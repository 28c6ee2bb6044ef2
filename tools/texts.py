"""Prints every text of the code that people may read, as a table: to be read once, whole, with fresh eyes.

    python -m tools.texts > build/texts.md

A text is a string of three words or more outside docstrings; `…` stands for a value that is put in.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PARTS = (
    "coordinator",
    "alerts",
    "dashboard",
    "engine",
    "streaming",
    "cluster",
    "checkpoints",
    "config",
    "decoders",
    "cli",
)
LEAST_WORDS = 3


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and words of each text of a module, in the order of its lines."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    hidden = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            hidden |= {id(part) for part in ast.walk(node) if part is not node}
    found = [
        (node.lineno, " ".join(_words(node).split()))
        for node in ast.walk(tree)
        if id(node) not in hidden and isinstance(node, ast.Constant | ast.JoinedStr)
    ]
    return iter(sorted({one for one in found if len(one[1].split()) >= LEAST_WORDS}))


def _words(node: ast.Constant | ast.JoinedStr) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(_words(part) if isinstance(part, ast.Constant) else "…" for part in node.values)
    return node.value if isinstance(node.value, str) else ""


def main() -> None:
    """Write the table to standard output."""
    out = sys.stdout
    out.write("| where | text |\n|---|---|\n")
    for path in sorted(path for part in PARTS for path in (ROOT / part).rglob("*.py")):
        for line, said in texts(path):
            cell = said.replace("|", "\\|")
            out.write(f"| {path.relative_to(ROOT)}:{line} | {cell} |\n")


if __name__ == "__main__":
    main()
