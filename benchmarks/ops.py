"""Single operators after at most 200 trials each: products and convolutions of networks.

``python -m benchmarks.ops --json benchmarks/results/ops.json``

Rows whose name ends in ``_renamed`` are the same programs written out by hand under names that say
nothing; the last rows are operators that neither autosched nor any library knows.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.command_line import add_comparison
from benchmarks.contender import Contender
from benchmarks.fma_peak import FmaPeak
from benchmarks.harness import OURS, Comparison, Options, compare, relative_error
from benchmarks.ours import OursOperator
from benchmarks.programs import operator_task
from benchmarks.rivals import RIVALS
from benchmarks.rows import Row, comparison_row, print_row, write_json
from benchmarks.workloads import (
    CONVOLUTIONS,
    MATMULS,
    UNKNOWN_OPERATORS,
    Conv,
    Matmul,
    Operator,
)

TOLERANCE = 1e-4


@dataclass(frozen=True, slots=True)
class Bar:
    """What a row has to reach: ``ratio_low`` against one rival, and a share of the FMA peak."""

    rival: str
    ratio: float
    peak_share: float = 0.0


@dataclass(frozen=True, slots=True)
class Case:
    """A row: a workload, and whether its program is written out under other names."""

    workload: Operator
    renamed: bool = False

    @property
    def name(self) -> str:
        return self.workload.name + ("_renamed" if self.renamed else "")

    @property
    def bar(self) -> Bar | None:
        match self.workload:
            case Matmul(constant_b=True):
                return Bar("openvino", 1.0, 0.88)
            case Matmul():
                return Bar("openvino", 0.95)
            case Conv():
                return Bar("onednn", 0.9)
        return None


CASES = (
    *(Case(workload) for workload in (*MATMULS, *CONVOLUTIONS)),
    Case(MATMULS[0], renamed=True),
    Case(CONVOLUTIONS[0], renamed=True),
    *(Case(workload) for workload in UNKNOWN_OPERATORS),
)


def measure(case: Case, threads: int, arguments: argparse.Namespace) -> Row:
    """Tune (unless the log has the trials already), then compare in interleaved rounds."""
    log = Path(arguments.logs) / f"{case.name}.{threads}t.jsonl"
    log.parent.mkdir(parents=True, exist_ok=True)
    task = operator_task(case.workload, threads, case.renamed)
    task.tune(trials=arguments.trials, log=log, quiet=True)
    chosen: list[Contender] = [
        rival
        for rival in RIVALS
        if rival.name in arguments.rivals and rival.supports(case.workload)
    ]
    ours = OursOperator(str(log), case.renamed)
    options = Options(arguments.rounds, arguments.seconds)
    result = compare(case.workload, [ours, FmaPeak(), *chosen], threads, options)
    row = comparison_row(case.name, threads, case.workload.flops, result)
    row["trials"] = arguments.trials
    row["max_error"] = _error(case.workload, result, chosen)
    if case.bar is not None:
        row["bar"] = _against(case.bar, row)
    return row


def _error(workload: Operator, result: Comparison, rivals: Sequence[Contender]) -> float:
    """Our largest relative error against the first rival's output."""
    if not rivals:
        return float("nan")
    reference = result.outputs[rivals[0].name]
    ours = result.outputs[OURS]
    return float(np.max([relative_error(ours[n], reference[n]) for n in workload.outputs]))


def _against(bar: Bar, row: Row) -> Row:
    """Whether the row's bar holds; a wrong result never does."""
    low = row.get("ratios", {}).get(bar.rival, {}).get("ratio_low", 0.0)
    holds = low >= bar.ratio and row["peak_share"] >= bar.peak_share
    return {
        "rival": bar.rival,
        "ratio": bar.ratio,
        "peak_share": bar.peak_share,
        "ratio_low": low,
        "holds": bool(holds and row["max_error"] <= TOLERANCE),
    }


def main() -> None:
    """Run the rows that were asked for."""
    names = [case.name for case in CASES]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="ROW")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--logs", default="out/ops", help="directory of the tuning logs")
    add_comparison(parser, (2,), 0.3, ("openvino", "onnxruntime", "onednn"))
    arguments = parser.parse_args()
    rows = []
    for threads in arguments.threads:
        for case in CASES:
            if case.name in arguments.only:
                rows.append(measure(case, threads, arguments))
                print_row(rows[-1])
                write_json(arguments.json, rows)


if __name__ == "__main__":
    main()
