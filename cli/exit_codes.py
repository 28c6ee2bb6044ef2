"""What the process says by its exit code, and which error means which.

0 fine · 1 found problems · 2 usage or configuration · 3 a dependency cannot be reached, a disk is full, or
the query failed again and again · 130 interrupted.
Errors are known here by name: looking them up must not import the parts that define them. A file or folder
that is not there, or not ours, was named on the command line or in the configuration; any other error of the
system is a disk or a network that fails.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes of every verb."""

    FINE = 0
    PROBLEMS = 1
    USAGE = 2
    UNREACHABLE = 3
    INTERRUPTED = 130


BY_ERROR = {
    "rebalance_monitor.config.errors.ConfigError": ExitCode.USAGE,
    # It ends every start alike, until somebody has set what it names.
    "rebalance_monitor.streaming.job.heap_failures.HeavyRecordError": ExitCode.USAGE,
    "rebalance_monitor.cluster.errors.DependencyError": ExitCode.UNREACHABLE,
    "rebalance_monitor.checkpoints.errors.NoRoomError": ExitCode.UNREACHABLE,
    "rebalance_monitor.checkpoints.errors.StoreError": ExitCode.UNREACHABLE,
    "builtins.FileExistsError": ExitCode.USAGE,
    "builtins.FileNotFoundError": ExitCode.USAGE,
    "builtins.IsADirectoryError": ExitCode.USAGE,
    "builtins.NotADirectoryError": ExitCode.USAGE,
    "builtins.PermissionError": ExitCode.USAGE,
    "builtins.OSError": ExitCode.UNREACHABLE,
    "builtins.KeyboardInterrupt": ExitCode.INTERRUPTED,
    "click.exceptions.Abort": ExitCode.INTERRUPTED,
}


def exit_code_of(error: BaseException) -> ExitCode | None:
    """Return the code of the error's class or its nearest known ancestor; None for a bug of ours."""
    names = (f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__)
    return next((BY_ERROR[name] for name in names if name in BY_ERROR), None)
