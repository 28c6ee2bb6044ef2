"""Streams that take no more: stdout whose reader has had enough (`decode | head`), stderr on a full disk."""

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click


def reader_is_gone() -> bool:
    """Whether nobody reads stdout any more."""
    looks = select.poll()
    looks.register(sys.stdout.fileno(), select.POLLOUT)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in looks.poll(0))


def say(text: str) -> None:
    """Write a line to stderr. One that it does not take is lost, as one of the log: nothing ends over it."""
    with suppress(OSError):
        click.echo(text, err=True)


@contextmanager
def patient() -> Iterator[None]:
    """End well where a reader of stdout has had enough (`decode | head`): click itself would end with 1."""
    try:
        yield
    except BrokenPipeError:
        if not reader_is_gone():
            raise
        # Python flushes once more when it ends, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(0) from None
