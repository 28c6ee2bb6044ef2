"""Paths as people write them: `~` is the user's home folder, which a user without a name may not have."""

from pathlib import Path

from rebalance_monitor.config.errors import ConfigError


def expanded(path: Path | str) -> Path:
    """Return the path with `~` replaced. Raises ConfigError for a user without a home folder."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise ConfigError(
            f"{path} begins with `~`, and this user has no home folder: write the whole path, or set HOME"
        ) from None
