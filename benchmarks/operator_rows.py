"""Rows of single operators: each is tuned, then compared with its rivals and with the peak."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.command_line import add_comparison
from benchmarks.contender import Contender
from benchmarks.harness import OURS, Comparison, Options, compare, relative_error
from benchmarks.ours import OursOperator
from benchmarks.peak import TILE_NAME, Peak
from benchmarks.programs import operator_task
from benchmarks.rivals import RIVALS
from benchmarks.rows import Row, comparison_row, print_bars, print_row, write_json
from benchmarks.workloads import IntegerConv, IntegerMatmul, Operator

_TOLERANCE: Final = 1e-4
# Sums of integers are exact; of what is rounded to a byte a neighbour is right.
_TOLERANCES: Final[Mapping[type, float]] = {IntegerMatmul: 0.0, IntegerConv: 1 / 255}
FLOAT: Final = "ours_float32"


@dataclass(frozen=True, slots=True)
class Bar:
    """What a row has to reach: ``ratio_low`` against each rival, and a share of the peak.

    ``fastest``: ``ratio_low`` against the fastest rival.  ``times_float``: against our kernel of
    the same convolution of floats, as it is written.
    """

    ratios: tuple[tuple[str, float], ...] = ()
    peak_share: float = 0.0
    fastest: float = 0.0
    times_float: float = 0.0


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
                print_bars(rows[-1])
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
    peaks = (Peak(), Peak(TILE_NAME, tiles=True))
    contenders += [peak for peak in peaks if peak.supports(case.workload)]
    if isinstance(case.workload, IntegerConv):
        contenders.append(_tuned_float(case.workload, threads, arguments))
    options = Options(arguments.rounds, arguments.seconds)
    result = compare(case.workload, contenders, threads, options)
    apart = (TILE_NAME, FLOAT)
    row = comparison_row(case.name, threads, case.workload.flops, result, apart)
    row |= _of_tiles(row, result)
    if FLOAT in result.rounds:
        row["float_ratio"], row["float_ratio_low"] = result.ratio([FLOAT])
    row["trials"], row["flags"] = arguments.trials, []
    row["max_error"] = _error(case.workload, result, rivals)
    row["bars"] = {} if case.bar is None else _bars(case, case.bar, row)
    row["bar"] = {"holds": all(row["bars"].values())}
    return row


def _tuned_float(workload: IntegerConv, threads: int, arguments: argparse.Namespace) -> Contender:
    log = Path(arguments.logs) / f"{workload.of.name}.direct.{threads}t.jsonl"
    task = operator_task(workload.of, threads, direct=True)
    task.tune(trials=arguments.trials, log=log, quiet=True)
    return OursOperator(str(log), name=FLOAT, direct=True)


def _of_tiles(row: Row, result: Comparison) -> Row:
    """Our share of what tile registers could do, which is no bar."""
    if TILE_NAME not in result.rounds or "ours_gflops" not in row:
        return {}
    most = result.details[TILE_NAME]["operations"] / result.milliseconds(TILE_NAME) / 1e6
    return {"tile_peak_gflops": most, "tile_peak_share": row["ours_gflops"] / most}


def _error(workload: Operator, result: Comparison, rivals: Sequence[Contender]) -> float:
    """Our largest relative error against the first rival's output."""
    if not rivals:
        return float("nan")
    reference = result.outputs[rivals[0].name]
    ours = result.outputs[OURS]
    return float(np.max([relative_error(ours[n], reference[n]) for n in workload.outputs]))


def _bars(case: Case, bar: Bar, row: Row) -> dict[str, bool]:
    """Each bar of the row, and whether it holds; a wrong result holds none."""
    measured = row.get("ratios", {})
    low = {rival: measured.get(rival, {}).get("ratio_low", 0.0) for rival, _ in bar.ratios}
    found = {f"times {rival} >= {least:g}": low[rival] >= least for rival, least in bar.ratios}
    wanted = (
        ("of the peak", "peak_share", bar.peak_share),
        ("times the fastest rival", "ratio_low", bar.fastest),
        ("times our float32", "float_ratio_low", bar.times_float),
    )
    found |= {
        f"{what} >= {least:g}": row.get(key, 0.0) >= least for what, key, least in wanted if least
    }
    most = _TOLERANCES.get(type(case.workload), _TOLERANCE)
    return found | {f"error <= {most:g}": bool(row["max_error"] <= most)}
