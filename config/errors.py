"""The error of an unusable configuration: its author must act.

Every problem is one sentence that says what is wrong, where it stands (file, environment or command line)
and what to do. All problems of a configuration are reported at once.
"""

from collections.abc import Sequence
from typing import Self


class ConfigError(Exception):
    """The configuration cannot be used; `problems` holds one sentence each."""

    def __init__(self, problem: str, *more: str) -> None:
        self.problems = (problem, *more)
        super().__init__("\n".join(self.problems))

    @classmethod
    def of(cls, problems: Sequence[str]) -> Self:
        """Build the error from at least one problem."""
        return cls(problems[0], *problems[1:])
