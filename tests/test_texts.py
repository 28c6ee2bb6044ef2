"""The table of all texts: what it finds, and what no text does."""

from __future__ import annotations

import re

from tools import texts

MODULE = '''"""Not this docstring of a module."""

def say(count: int) -> str:
    """Nor this one of a function."""
    return f"there are {count} of them" + "two words"
'''
SCRIPT = """// Not a comment of three words.
const said = `there are ${count ? 1 : 2} of them`;
"""
PAGE = '<p title="a title that is read">Some words to read</p>\n'


def test_texts_are_found_in_modules_scripts_and_pages_and_docstrings_are_none() -> None:
    assert texts.texts("say.py", MODULE) == [(5, "there are … of them")]
    assert texts.texts("say.js", SCRIPT) == [(2, "there are … of them")]
    assert [said for _, said in texts.texts("say.html", PAGE)] == [
        "Some words to read",
        "a title that is read",
    ]


def test_a_changed_text_stands_beside_the_one_that_it_was() -> None:
    now = {"say.py": MODULE.replace("there are", "here are")}
    assert list(texts.changed({"say.py": MODULE}, now)) == [
        ("say.py", "there are … of them", "here are … of them")
    ]


def test_no_text_leaves_the_plural_to_its_reader() -> None:
    found = [
        (name, said) for name, source in texts.files("").items() for _, said in texts.texts(name, source)
    ]
    assert len(found) > 2_000
    assert [one for one in found if re.search(r"[a-z]\(s\)", one[1])] == []
