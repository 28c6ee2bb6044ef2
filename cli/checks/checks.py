"""What `doctor` checks: one function per check, each one line of the report.

A check says what is fine, or what is wrong and what to do. Those that ask a broker are in broker_checks.py.
"""

import os
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from rebalance_monitor.cli.checks.result import Result, dotted, numbers
from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.config.errors import ConfigError

if TYPE_CHECKING:
    from rebalance_monitor.checkpoints.storage.remote_place import RemotePlace
    from rebalance_monitor.config.model import Settings

PYTHONS = ((3, 11), (3, 12), (3, 13))
# Package -> versions from and below which the job runs.
PACKAGES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "pyspark": ((3, 5), (4, 4)),
    "pyarrow": ((15,), (26,)),
    "pandas": ((2, 2), (3,)),
    "kafka-python": ((3,), (4,)),
    "confluent-kafka": ((2, 6), (3,)),
}
SHOWN = 300
"""Characters of an unexpected error that are shown."""
BLIND_TRAP = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"


Check = Callable[["Settings"], Result]


def run_checks(settings: "Settings") -> Iterator[Result]:
    """Yield the results in order; checks of the broker come only where one answers."""
    is_spark = settings.engine == "spark"
    for name, check in LOCAL.items():
        if name in OF_SPARK and not is_spark:
            continue
        yield _guarded(name, lambda check=check: check(settings))  # type: ignore[misc] # bound now
    from rebalance_monitor.cluster.clients.admin import ClusterAdmin

    try:
        admin = ClusterAdmin(settings.kafka.client_properties())
    except ConfigError:
        # The first line has said so.
        return
    except Exception as error:  # noqa: BLE001 - whatever a library raises is this line's outcome
        yield _failed("broker", error)
        return
    from rebalance_monitor.cli.checks.broker_checks import REMOTE
    from rebalance_monitor.cli.checks.sight import CHECK, through_spark

    with admin:
        seen = []
        for name, asks in REMOTE.items():
            seen.append(_guarded(name, lambda asks=asks: asks(admin, settings)))  # type: ignore[misc] # bound now
            yield seen[-1]
        if is_spark and all(result.ok or result.optional for result in seen):
            yield _guarded(CHECK, lambda: through_spark(admin, settings))


def _guarded(name: str, check: Callable[[], Result]) -> Result:
    try:
        return check()
    except Exception as error:  # noqa: BLE001 - the checks behind it may find the reason
        return _failed(name, error)


def _failed(name: str, error: Exception) -> Result:
    if isinstance(error, DependencyError):
        return Result(name, ok=False, found=error.what, remedy=error.remedy)
    if isinstance(error, ConfigError):
        return Result(name, ok=False, found="; ".join(error.problems), remedy="Correct the configuration.")
    import structlog

    structlog.get_logger().debug("a check failed", check=name, exc_info=error)
    words = str(error).strip().partition("\n")[0][:SHOWN]
    found = f"the check itself failed: {type(error).__name__}: {words}".rstrip(": ")
    return Result(
        name, ok=False, found=found, remedy="Run it with --log-level debug, and report it with the traceback."
    )


def python(_settings: "Settings") -> Result:
    """Check the version of Python."""
    found = ".".join(map(str, sys.version_info[:3]))
    known = ", ".join(".".join(map(str, pair)) for pair in PYTHONS)
    return Result("python", sys.version_info[:2] in PYTHONS, f"Python {found}", f"Use one of {known}.")


def packages(_settings: "Settings") -> Result:
    """Check the versions of the libraries that break the job where they are others."""
    seen, wrong = [], []
    for name, (least, below) in PACKAGES.items():
        try:
            text = version(name)
        except PackageNotFoundError:
            wrong.append(f"{name} is missing")
            continue
        seen.append(f"{name} {text}")
        if not least <= numbers(text) < below:
            wrong.append(f"{name} must be >= {dotted(least)} and < {dotted(below)}, not {text}")
    remedy = "Install versions within these bounds, or the pinned set as docs/howto/systemd.md does."
    return Result("packages", not wrong, "; ".join(wrong) or ", ".join(seen), remedy)


def java(_settings: "Settings") -> Result:
    """Check that a Java which Spark starts on is installed."""
    from rebalance_monitor.cluster.jars.java import find_java

    found = find_java()
    return Result("java", ok=True, found=f"Java {found.major} in {found.home}")


def jars(settings: "Settings") -> Result:
    """Check that the jars of Spark's Kafka source are there or can be fetched."""
    from rebalance_monitor.cluster.jars.jars import installed_spark, resolve_spark_kafka
    from rebalance_monitor.streaming.spark.session import is_platform

    if is_platform(os.environ):
        return Result("jars", ok=True, found="the platform's own connector is used")
    spark, scala = installed_spark()
    found = resolve_spark_kafka(spark, scala, settings)
    return Result("jars", ok=True, found=f"{len(found)} jars for Spark {spark} (Scala {scala})")


def configuration(settings: "Settings") -> Result:
    """Check what `config check` does: all that the job refuses before it asks a broker."""
    from rebalance_monitor.streaming.preflight import problems_of

    problems = list(problems_of(settings))
    found = "; ".join(problems) or "valid, and every client reads it alike"
    return Result("configuration", not problems, found, "Correct the configuration.")


def login(settings: "Settings") -> Result:
    """Log in as far as that needs no broker, and say which client logs in by what."""
    from rebalance_monitor.cluster.logins.held import require_login, served

    properties = settings.kafka.client_properties()
    require_login(properties)
    return Result("login", ok=True, found=served(properties))


def java_client(settings: "Settings") -> Result:
    """Check that Java's Kafka client, with which Spark reads, takes the properties."""
    from rebalance_monitor.cluster.clients.java_client import java_refusal
    from rebalance_monitor.cluster.clients.properties import java_properties
    from rebalance_monitor.cluster.jars.shared_jvm import SHARED_JVM
    from rebalance_monitor.cluster.logins.held import login_problem
    from rebalance_monitor.streaming.spark.session import is_platform, kafka_jars

    name = "java client"
    if is_platform(os.environ) or settings.source.reader == "python":
        return Result(
            name, ok=True, found="not asked: Spark's connector of this configuration does not read the topic"
        )
    if login_problem(settings.kafka.client_properties()):
        # Java's own words for the same would name no cause.
        return Result(name, ok=False, found="not asked: the login fails", remedy="See the line `login`.")
    properties = java_properties(settings.kafka.client_properties())
    why = java_refusal(properties, kafka_jars(settings), SHARED_JVM.options)
    remedy = "Correct `kafka:` in the configuration."
    return Result(name, not why, why or "takes the properties of `kafka:`", remedy)


def blind_trap(settings: "Settings") -> Result:
    """Check that nothing switches off the setting without which Spark delivers no row of this topic."""
    value = settings.spark.properties().get(BLIND_TRAP, "true")
    return Result(
        "Spark internal-topic switch",
        value.strip().lower() == "true",
        f"{BLIND_TRAP} is {value}",
        f"Remove {BLIND_TRAP} from `spark:`. With it Spark returns no rows of this topic, and no error.",
    )


def storage(settings: "Settings") -> Result:
    """Check that the job's folder can be written."""
    from rebalance_monitor.checkpoints.errors import FolderError, NoRoomError
    from rebalance_monitor.checkpoints.storage.fitness import require_fit
    from rebalance_monitor.checkpoints.storage.places import is_remote
    from rebalance_monitor.engine.storage import storage_at

    path = storage_at(settings.storage.path).root
    if is_remote(path):
        return _remote_storage(path)
    path = Path(str(path))
    nearest = next(folder for folder in (path, *path.parents) if folder.exists())
    fine = nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
    found = f"{path} can{'' if fine else 'not'} be written"
    if fine:
        try:
            require_fit(nearest, nearest / ".rebalance-monitor.trial")
        except (FolderError, NoRoomError) as error:
            fine, found = False, str(error)
    return Result("storage", fine, found, f"Make {nearest} a writable folder, or set `storage.path`.")


def _remote_storage(root: "RemotePlace") -> Result:
    """Write, list, read and delete a file: all that a job does there."""
    trial = root / "doctor" / "trial"
    try:
        trial.put(b"trial")
        listed = [found.name for found in (root / "doctor").glob("[!.]*")]
        fine = trial.read_bytes() == b"trial" and "trial" in listed
        trial.unlink()
        why = "" if fine else ": what was written could not be read back"
    except OSError as error:
        fine, why = False, f": {str(error).splitlines()[0]}"
    found = f"{root} can{'' if fine else 'not'} be written and read{why}"
    advice = "Give this machine the right to read, list, write and delete there, or set `storage.path`."
    return Result("storage", fine, found, advice)


LOCAL: dict[str, Check] = {
    "configuration": configuration,
    "python": python,
    "packages": packages,
    "java": java,
    "jars": jars,
    "login": login,
    "java client": java_client,
    "Spark internal-topic switch": blind_trap,
    "storage": storage,
}
OF_SPARK = frozenset({"java", "jars", "java client", "Spark internal-topic switch"})
"""What `engine: embedded` needs none of."""
