"""Prints every text that people may read, as a table: to be read once, whole, with fresh eyes.

    python -m tools.texts > build/texts.md                # all of them
    python -m tools.texts --since REVISION                # those that have changed: as they were, as they are

A text is a string of three words or more outside docstrings, or a text of the page; `…` stands for a value
that is put in.
"""

import argparse
import ast
import difflib
import re
import subprocess
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
ALIKE = 0.4
"""Of a changed text and the one in its place at least so much is the same, else both stand alone."""
_QUOTED = re.compile(r'"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`')
_VALUE = re.compile(r"\$\{(?:[^{}]|\{[^{}]*\})*\}")
_TAG = re.compile(r"<[^>]*>")


def texts(name: str, source: str) -> list[tuple[int, str]]:
    """Return line and words of each text of a file, in the order of its lines."""
    found = _of_python(source) if name.endswith(".py") else _of_page(source)
    return sorted(
        {(line, " ".join(said.split())) for line, said in found if len(said.split()) >= LEAST_WORDS}
    )


def _of_python(source: str) -> Iterator[tuple[int, str]]:
    tree = ast.parse(source)
    hidden = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            hidden |= {id(part) for part in ast.walk(node) if part is not node}
    for node in ast.walk(tree):
        if id(node) not in hidden and isinstance(node, ast.Constant | ast.JoinedStr):
            yield node.lineno, _words(node)


def _words(node: ast.Constant | ast.JoinedStr) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(_words(part) if isinstance(part, ast.Constant) else "…" for part in node.values)
    return node.value if isinstance(node.value, str) else ""


def _of_page(source: str) -> Iterator[tuple[int, str]]:
    """Yield the strings of a script, and what stands between the tags of a document."""
    for number, line in enumerate(source.splitlines(), 1):
        if line.lstrip().startswith("<"):
            yield from ((number, part) for part in _TAG.split(line))
            yield from ((number, found[1]) for found in _QUOTED.finditer(line) if found[1])
        elif not line.lstrip().startswith("//"):
            for found in _QUOTED.finditer(line):
                yield number, _VALUE.sub("…", found[1] or found[2] or "")


def files(revision: str) -> dict[str, str]:
    """Return name -> source of each file of the parts: at a revision, or as it is now ("")."""
    names = [f"{part}/**/*{end}" for part in PARTS for end in (".py", ".js", ".html")]
    if not revision:
        paths = sorted(path for pattern in names for path in ROOT.glob(pattern))
        read = {path.relative_to(ROOT).as_posix(): path for path in paths}
        return {name: path.read_text(encoding="utf-8") for name, path in read.items() if _is_read(name)}
    listed = _git("ls-tree", "-r", "--name-only", revision, *PARTS).split()
    return {name: _git("show", f"{revision}:{name}") for name in listed if _is_read(name)}


def _is_read(name: str) -> bool:
    """Whether a file's texts are written there; the runbooks are a page of the documentation."""
    return name.endswith((".py", ".js", ".html")) and not name.endswith("runbooks.html")


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def changed(before: dict[str, str], now: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield file, text as it was and as it is, of each text that has changed in its place."""
    for name in sorted(before.keys() & now.keys()):
        if before[name] == now[name]:
            continue
        old, new = ([said for _, said in texts(name, source)] for source in (before[name], now[name]))
        for _, first, last, start, end in difflib.SequenceMatcher(
            None, old, new, autojunk=False
        ).get_opcodes():
            gone, come = set(old[first:last]) - set(new), set(new[start:end]) - set(old)
            for one in [said for said in old[first:last] if said in gone]:
                near = difflib.get_close_matches(one, sorted(come), 1, ALIKE)
                if near:
                    yield name, one, near[0]
                    come -= {near[0]}


def main() -> None:
    """Write the table to standard output."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--since", default="", metavar="REVISION")
    given = parser.parse_args()
    if given.since:
        rows = [list(row) for row in changed(files(given.since), files(""))]
        _table(["where", "before", "now"], rows)
        return
    found = {name: texts(name, source) for name, source in files("").items()}
    _table(
        ["where", "text"], [[f"{name}:{line}", said] for name, texts in found.items() for line, said in texts]
    )


def _table(head: list[str], rows: list[list[str]]) -> None:
    for row in (head, ["---"] * len(head), *rows):
        sys.stdout.write(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n")


if __name__ == "__main__":
    main()
