"""Where text is coloured: on a terminal, unless NO_COLOR (https://no-color.org) is set."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO


def is_plain() -> bool:
    """Whether nobody wants colours, on a terminal either."""
    return bool(os.environ.get("NO_COLOR"))


def takes_colours(stream: TextIO) -> bool:
    """Whether what is written to `stream` may be coloured."""
    return stream.isatty() and not is_plain()
