"""Rows of single operators: each is tuned, then compared with its rivals and with the peak."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.command_line import add_comparison
from benchmarks.contender import Contender
from benchmarks.harness import OURS, Comparison, Options, compare, relative_error
from benchmarks.ours import OursOperator
from benchmarks.peak import Peak
from benchmarks.programs import operator_task
from benchmarks.rivals import RIVALS
from benchmarks.rows import Row, comparison_row, print_row, write_json
from benchmarks.workloads import IntegerMatmul, Operator

_TOLERANCE: Final = 1e-4  # sums of integers are exact


@dataclass(frozen=True, slots=True)
class Bar:
    """What a row has to reach: ``ratio_low`` against each rival, and a share of the peak."""

    ratios: tuple[tuple[str, float], ...]
    peak_share: float = 0.0


@dataclass(frozen=True, slots=True)
class Case:
    """A row: a workload, and whether its program is written out under other names."""

    workload: Operator
    bar: Bar | None = None
    renamed: bool = False

    @property
    def name(self) -> str:
        return self.workload.name + ("_renamed" if self.renamed else "")


def run(cases: Sequence[Case], name: str, summary: str, rivals: Sequence[str]) -> None:
    """Run the rows that the command line asks for.

    Args:
        cases: all there are.
        name: of the folder of their logs.
        summary: of the command, for its help.
        rivals: names of those to compare with, by default.
    """
    names = [case.name for case in cases]
    parser = argparse.ArgumentParser(description=summary)
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="ROW")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--logs", default=f"out/{name}", help="directory of the tuning logs")
    add_comparison(parser, (2,), 0.3, rivals)
    arguments = parser.parse_args()
    rows = []
    for threads in arguments.threads:
        for case in cases:
            if case.name in arguments.only:
                rows.append(measure(case, threads, arguments))
                print_row(rows[-1])
                write_json(arguments.json, rows)


def measure(case: Case, threads: int, arguments: argparse.Namespace) -> Row:
    """Tune (unless the log has the trials already), then compare in interleaved rounds."""
    log = Path(arguments.logs) / f"{case.name}.{threads}t.jsonl"
    log.parent.mkdir(parents=True, exist_ok=True)
    task = operator_task(case.workload, threads, case.renamed)
    task.tune(trials=arguments.trials, log=log, quiet=True)
    rivals: list[Contender] = [
        rival
        for rival in RIVALS
        if rival.name in arguments.rivals and rival.supports(case.workload)
    ]
    contenders = [OursOperator(str(log), case.renamed), *rivals]
    if Peak().supports(case.workload):
        contenders.append(Peak())
    options = Options(arguments.rounds, arguments.seconds)
    result = compare(case.workload, contenders, threads, options)
    row = comparison_row(case.name, threads, case.workload.flops, result)
    row["trials"] = arguments.trials
    row["max_error"] = _error(case.workload, result, rivals)
    if case.bar is not None:
        row["bar"] = _against(case, case.bar, row)
    return row


def _error(workload: Operator, result: Comparison, rivals: Sequence[Contender]) -> float:
    """Our largest relative error against the first rival's output."""
    if not rivals:
        return float("nan")
    reference = result.outputs[rivals[0].name]
    ours = result.outputs[OURS]
    return float(np.max([relative_error(ours[n], reference[n]) for n in workload.outputs]))


def _against(case: Case, bar: Bar, row: Row) -> Row:
    """Whether the row's bar holds; a wrong result never does."""
    measured = row.get("ratios", {})
    low = {rival: measured.get(rival, {}).get("ratio_low", 0.0) for rival, _ in bar.ratios}
    fast = all(low[rival] >= ratio for rival, ratio in bar.ratios)
    most = 0.0 if isinstance(case.workload, IntegerMatmul) else _TOLERANCE
    return {
        "ratios": dict(bar.ratios),
        "peak_share": bar.peak_share,
        "ratios_low": low,
        "holds": bool(
            fast and row.get("peak_share", 0.0) >= bar.peak_share and row["max_error"] <= most
        ),
    }
