"""Makes the page that the monitor itself serves at `/runbooks/` of docs/runbooks.md, section by section.

A link of an alert names a kind (`/runbooks/#storm`), so each heading's id is its text, as in the site. The
page stands alone: a link to another page of the documentation, which the monitor does not serve, stays as
its words.
"""

import html
import re
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tools.pages.detection import runbooks_markdown

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="dark light">
<meta name="robots" content="noindex">
<title>Runbooks · Rebalance monitor</title>
<link rel="icon" href="../static/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="../static/prose.css">
</head>
<body>
<!-- Generated from docs/runbooks.md by `make docs`. -->
<nav aria-label="Sections">
<p><a href="../">Groups</a></p>
<ul>
{sections}
</ul>
</nav>
<main>
{text}
</main>
</body>
</html>
"""


def runbooks_html() -> str:
    """Return dashboard/web/static/runbooks.html."""
    parser = MarkdownIt("commonmark").enable("table")
    tokens = parser.parse(runbooks_markdown())
    sections = []
    for token, content in pairwise(tokens):
        if token.type == "heading_open":
            token.attrSet("id", anchor(content.content))
            if token.tag == "h2":
                sections.append((anchor(content.content), content.content))
    for token in tokens:
        token.children = _without_pages(token.children or []) if token.children else token.children
    listed = "\n".join(f'<li><a href="#{name}">{html.escape(text)}</a></li>' for name, text in sections)
    text = parser.renderer.render(tokens, parser.options, {})
    return PAGE.format(sections=listed, text=text.strip())


def anchor(heading: str) -> str:
    """Return the id of a heading."""
    return re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-")


def _without_pages(tokens: list[Token]) -> list[Token]:
    """Drop the link, and keep the words, where it leads to another page of the documentation."""
    kept, dropping = [], False
    for token in tokens:
        if token.type == "link_open":
            target = str(token.attrGet("href"))
            dropping = not target.startswith(("#", "http://", "https://"))
        if not (dropping and token.type in {"link_open", "link_close"}):
            kept.append(token)
        if token.type == "link_close":
            dropping = False
    return kept
