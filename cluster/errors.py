"""Errors of the edge to Kafka, Java and downloaded jars, named by who must act."""

from __future__ import annotations


class DependencyError(Exception):
    """Something outside this program is missing or cannot be reached: the operator must provide it.

    `what` is one sentence saying what is wrong, `remedy` one saying what to do; `str()` gives both.
    The command line exits with code 3 on it.
    """

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(f"{what}\n{remedy}" if remedy else what)
        self.what = what
        self.remedy = remedy


class BrokerUnreachableError(DependencyError):
    """No Kafka broker answered at the given addresses."""


class AccessDeniedError(DependencyError):
    """The brokers refuse our credentials, or a permission is missing; `what` names it."""


class DownloadError(DependencyError):
    """A jar could not be fetched; `what` names the artifact."""
