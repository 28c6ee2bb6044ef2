"""Checks frames against the contracts: with great-expectations, which writes its Data Docs, or without.

Where it is not installed the same contracts are checked by our own few lines (dashboard/audit/quick.py), and
there are no Data Docs. Importing it takes seconds and much memory: callers do this in a process of its own.
An empty frame is not checked: it breaks no contract, and has no columns to check.
"""

from __future__ import annotations

import logging
import os
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from rebalance_monitor.dashboard.audit.contracts import CONTRACTS
from rebalance_monitor.dashboard.audit.quick import breaking, tolerated

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    import pandas as pd

    from rebalance_monitor.dashboard.audit.frames import Row

SHOWN = 5


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one contract fared on one sample: rows read, rows that break it, some of their values."""

    suite: str
    means: str
    holds: bool
    rows: int
    breaking: int
    examples: tuple[str, ...] = ()


def writes_docs() -> bool:
    """Whether great-expectations is installed, without which there are no Data Docs."""
    return find_spec("great_expectations") is not None


def check(frames: Mapping[str, Sequence[Row]], docs: Path | None) -> list[Outcome]:
    """Check each frame by the suite of its name; write Data Docs to `docs` if given. Raises OSError."""
    filled = {name: frame for name, frame in frames.items() if frame}
    return _thorough(filled, docs) if writes_docs() else quick(filled)


def quick(frames: Mapping[str, Sequence[Row]]) -> list[Outcome]:
    """Check filled frames without great-expectations."""
    found = []
    for contract in CONTRACTS:
        frame = frames.get(contract.suite)
        if frame:
            bad = breaking(contract.expectation, contract.arguments, frame)
            holds = len(bad) <= tolerated(contract.arguments, frame)
            examples = tuple(str(value)[:100] for value in bad[:SHOWN])
            found.append(Outcome(contract.suite, contract.means, holds, len(frame), len(bad), examples))
    return found


def _thorough(frames: Mapping[str, Sequence[Row]], docs: Path | None) -> list[Outcome]:
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    logging.getLogger("great_expectations").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import great_expectations as gx  # noqa: PLC0415 - seconds to import
        from pandas import DataFrame  # noqa: PLC0415 - comes with it

        context = gx.get_context(mode="ephemeral")
        context.variables.progress_bars = {"globally": False}
        found = [
            one
            for name, frame in frames.items()
            for one in _run(gx, context, name, DataFrame.from_records(list(frame)))
        ]
        if docs is not None:
            _write_docs(context, docs)
    return found


def _run(gx: Any, context: Any, name: str, frame: pd.DataFrame) -> Iterable[Outcome]:  # noqa: ANN401 - the library has no types
    asset = context.data_sources.add_pandas(name).add_dataframe_asset(name)
    contracts = [contract for contract in CONTRACTS if contract.suite == name]
    made = [
        getattr(gx.expectations, contract.expectation)(**contract.arguments, notes=contract.means)
        for contract in contracts
    ]
    definition = context.validation_definitions.add(
        gx.ValidationDefinition(
            name=name,
            data=asset.add_batch_definition_whole_dataframe("sample"),
            suite=context.suites.add(gx.ExpectationSuite(name=name, expectations=made)),
        )
    )
    point = gx.Checkpoint(name=name, validation_definitions=[definition], result_format="SUMMARY")
    result = context.checkpoints.add(point).run(batch_parameters={"dataframe": frame})
    (run,) = result.run_results.values()
    means = {expectation.id: contract.means for expectation, contract in zip(made, contracts, strict=True)}
    return [_outcome(name, means, one, len(frame)) for one in run.results]


def _outcome(name: str, means: Mapping[Any, str], one: Any, rows: int) -> Outcome:  # noqa: ANN401 - as above
    result = one.result or {}
    examples = tuple(str(value)[:100] for value in result.get("partial_unexpected_list", ())[:SHOWN])
    said = means.get(one.expectation_config.id) or str(one.expectation_config.notes)
    return Outcome(name, said, bool(one.success), rows, int(result.get("unexpected_count") or 0), examples)


def _write_docs(context: Any, docs: Path) -> None:  # noqa: ANN401 - as above
    for site in list(context.list_data_docs_sites()):
        context.delete_data_docs_site(site)
    docs.mkdir(parents=True, exist_ok=True)
    store = {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(docs)}
    site = {
        "class_name": "SiteBuilder",
        "show_how_to_buttons": False,
        "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
        "store_backend": store,
    }
    context.add_data_docs_site(site_name="rebalance_monitor", site_config=site)
    context.build_data_docs()
