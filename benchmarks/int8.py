"""Integer matrix products against the peak of the tensor unit that this CPU has for bytes.

``python -m benchmarks.int8 --json benchmarks/results/int8.json``

Results must be equal to those of the rivals, bit by bit.
"""

from __future__ import annotations

import argparse
import ctypes
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.contender import Contender, Prepared
from benchmarks.harness import OURS, Options, compare, round_count
from benchmarks.ours import OursOperator
from benchmarks.programs import operator_task
from benchmarks.rivals.ort import OnnxRuntime
from benchmarks.rows import Row, comparison_row, print_row, write_json
from benchmarks.workloads import IntegerMatmul, Workload
from codegen.host import host_target
from codegen.kernel import Kernel
from codegen.llvm.jit import load
from codegen.llvm.machine import emit_object
from codegen.llvm.unit_calls import UNIT_CALLS
from sketch.target.units import TensorUnit, units_of

CASES = (
    IntegerMatmul("int8_1024", 1024, 1024, 1024),
    IntegerMatmul("int8_bert_128x768x3072", 128, 3072, 768),
    IntegerMatmul("int8_bert_128x3072x768", 128, 768, 3072),
)
PEAK = "unit_peak"
CHAINS = 12  # independent sums, which cover the latency and fit 16 registers
TRIPS = 2_000_000  # some milliseconds, so that handing out the work is below 1 %


@dataclass(frozen=True, slots=True)
class UnitPeak:
    """Chains of the unit's instruction alone; runs on every workload, and ignores it."""

    name: str = PEAK

    def supports(self, workload: Workload) -> bool:
        return True

    def prepare(self, workload: Workload, threads: int) -> Prepared:
        """Compile the chains for this CPU and pin one Python thread to each core."""
        target = host_target(1)
        kernel = Kernel(PEAK, PEAK, emit_object(_chains(), target), (), 0, target, CHAINS)
        library = load([kernel])
        function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64)(library.address(PEAK))
        cores = iter(sorted(os.sched_getaffinity(0))[:threads])
        pool = ThreadPoolExecutor(
            threads, initializer=lambda: os.sched_setaffinity(0, [next(cores)])
        )

        def run() -> None:
            list(pool.map(function, [TRIPS] * threads))

        return Prepared(run, dict, keep_alive=library)


def peak_operations(threads: int) -> float:
    """Multiplications and additions of a run of the chains on all threads."""
    unit = _unit()
    return 2.0 * CHAINS * unit.n * unit.k * TRIPS * threads


def _unit() -> TensorUnit:
    found = [u for u in units_of(host_target(1)) if (u.lhs, u.rhs) == ("uint8", "int8")]
    if not found:
        raise SystemExit("this CPU has no unit for products of bytes")
    return found[0]


def _chains() -> str:
    """LLVM IR of a function from trips (int64) to int32: trips times ``CHAINS`` instructions."""
    call = UNIT_CALLS[_unit().name]
    acc, operand, name, chains = call.acc, call.operand, call.name, range(CHAINS)
    factor = f"{operand} splat (i8 1)"
    return "\n".join([
        f"declare {acc} @{name}({acc}, {operand}, {operand})",
        f"define i32 @{PEAK}(i64 %trips) {{",
        "entry:",
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [0, %entry], [%next, %loop]",
        *(f"  %x{c} = phi {acc} [zeroinitializer, %entry], [%y{c}, %loop]" for c in chains),
        *(f"  %y{c} = call {acc} @{name}({acc} %x{c}, {factor}, {factor})" for c in chains),
        "  %next = add i64 %i, 1",
        "  %more = icmp slt i64 %next, %trips",
        "  br i1 %more, label %loop, label %done",
        "done:",
        *(f"  %s{c} = xor {acc} {'%y0' if c == 1 else f'%s{c - 1}'}, %y{c}" for c in chains[1:]),
        f"  %result = extractelement {acc} %s{CHAINS - 1}, i32 0",
        "  ret i32 %result",
        "}",
    ])  # fmt: skip


def measure(case: IntegerMatmul, threads: int, arguments: argparse.Namespace) -> Row:
    """Tune (unless the log has the trials already), then compare in interleaved rounds."""
    log = Path(arguments.logs) / f"{case.name}.{threads}t.jsonl"
    log.parent.mkdir(parents=True, exist_ok=True)
    operator_task(case, threads).tune(trials=arguments.trials, log=log, quiet=True)
    rival = OnnxRuntime()
    contenders: list[Contender] = [OursOperator(str(log)), UnitPeak(), rival]
    result = compare(case, contenders, threads, Options(arguments.rounds, arguments.seconds))
    row = comparison_row(case.name, threads, case.flops, result, apart=(PEAK,))
    peak = peak_operations(threads) / result.milliseconds(PEAK) / 1e6
    row |= {"trials": arguments.trials, "peak_gflops": peak}
    row["peak_share"] = row["ours_gflops"] / peak
    row["equal"] = bool(np.array_equal(result.outputs[OURS]["C"], result.outputs[rival.name]["C"]))
    return row


def main() -> None:
    """Run the rows that were asked for."""
    names = [case.name for case in CASES]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="ROW")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--logs", default="out/int8", help="directory of the tuning logs")
    parser.add_argument("--threads", nargs="+", type=int, default=[2])
    parser.add_argument("--rounds", type=round_count, default=9)
    parser.add_argument("--seconds", type=float, default=0.3, help="per contender and round")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    rows = []
    for threads in arguments.threads:
        for case in CASES:
            if case.name in arguments.only:
                rows.append(measure(case, threads, arguments))
                print_row(rows[-1])
                print(f"    {'equal' if rows[-1]['equal'] else 'WRONG'}", flush=True)
                write_json(arguments.json, rows)


if __name__ == "__main__":
    main()
