"""Whole networks: tuned, compiled, checked against onnxruntime, and timed next to the rivals.

``python -m benchmarks.networks --networks resnet-18 --budget 10m --json FILE``
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import autosched
from autosched import zoo
from autosched.onnx_export import to_onnx
from autosched.records.best import rank, select
from autosched.records.log import RecordLog
from autosched.runtime.module import Module
from benchmarks.contender import Contender
from benchmarks.fma_peak import FmaPeak
from benchmarks.harness import OURS, Comparison, Options, compare, relative_error
from benchmarks.ours import OursNetwork
from benchmarks.rivals import RIVALS
from benchmarks.rows import Row, comparison_row, print_row, write_json
from benchmarks.workloads import Network
from codegen.host import host_target

TOLERANCE = 1e-5
RATIO_BAR = 0.95
EAGER_BAR = 1.4
SUM_BAR_PERCENT = 10.0
RESIDUAL_BAR_PERCENT = 5.0
REFERENCE = "onnxruntime"


def measure(name: str, threads: int, arguments: argparse.Namespace, folder: Path) -> Row:
    """Tune within the budget, compile, save, and compare in interleaved rounds."""
    network = zoo.build(name)
    target = host_target(threads)
    log = Path(arguments.logs) / f"{name}.{threads}t.jsonl"
    log.parent.mkdir(parents=True, exist_ok=True)
    if arguments.budget != "0":
        autosched.tune(network, target=target, budget=arguments.budget, log=log)
    module = autosched.compile(network, target=target, log=log)
    compiled = folder / f"{name}.{threads}t.asd"
    module.save(compiled)
    model = folder / f"{name}.onnx"
    model.write_bytes(to_onnx(network.graph).SerializeToString())
    workload = Network(
        name,
        str(model),
        tuple((value.name, value.shape) for value in network.inputs),
        tuple(value.name for value in network.outputs),
        sum(step.info.flops for step in module.program.steps),
    )
    chosen: list[Contender] = [
        r for r in RIVALS if r.name in arguments.rivals and r.supports(workload)
    ]
    options = Options(arguments.rounds, arguments.seconds)
    contenders: list[Contender] = [OursNetwork(str(compiled)), FmaPeak(), *chosen]
    result = compare(workload, contenders, threads, options)
    row = comparison_row(name, threads, workload.flops, result)
    row["budget"] = arguments.budget
    row["sum_of_tasks_ms"] = _sum_of_tasks(module, log)
    row["max_error"] = _error(workload, result)
    row["bars"] = _bars(row)
    return row


def _sum_of_tasks(module: Module, log: Path) -> float:
    """What the log promises: the measured times of all kernels, in milliseconds."""
    records = RecordLog(log).read().records
    tasks = [step.info.task for step in module.program.steps]
    ranked = {task: rank(select(records, task, module.target)) for task in set(tasks)}
    return sum(ranked[task][0][0] for task in tasks if ranked[task]) * 1e3


def _error(workload: Network, result: Comparison) -> float:
    if REFERENCE not in result.outputs:
        return float("nan")
    ours, reference = result.outputs[OURS], result.outputs[REFERENCE]
    return max(relative_error(ours[name], reference[name]) for name in workload.outputs)


def _bars(row: Row) -> dict[str, bool]:
    """Each bar and whether it holds.  Without a record for every kernel none does."""
    complete = row["kernels_without_record"] == 0
    ratios = row.get("ratios", {})
    gap = abs(row["sum_of_tasks_ms"] / row["ours_ms"] - 1.0) * 100.0
    checks = {
        f"ratio_low >= {RATIO_BAR}": row.get("ratio_low", 0.0) >= RATIO_BAR,
        f"ratio_low to torch_eager >= {EAGER_BAR}": (
            ratios.get("torch_eager", {}).get("ratio_low", 0.0) >= EAGER_BAR
        ),
        f"error <= {TOLERANCE}": row["max_error"] <= TOLERANCE,
        f"sum of tasks within {SUM_BAR_PERCENT:g} %": gap <= SUM_BAR_PERCENT,
        f"profile residual <= {RESIDUAL_BAR_PERCENT:g} %": (
            row["profile_residual_percent"] <= RESIDUAL_BAR_PERCENT
        ),
    }
    return {what: bool(complete and holds) for what, holds in checks.items()}


def main() -> None:
    """Run the networks that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--networks", nargs="+", choices=zoo.NAMES)
    which.add_argument("--all", action="store_true", help=f"all of {', '.join(zoo.NAMES)}")
    parser.add_argument("--budget", default="10m", help="tuning time of each row; 0: only the log")
    parser.add_argument("--threads", nargs="+", type=int, default=[2, 1])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1.0, help="per contender and round")
    parser.add_argument("--logs", default="out/networks", help="directory of the tuning logs")
    parser.add_argument(
        "--rivals",
        nargs="*",
        default=["openvino", "onnxruntime", "torch_eager", "torch_inductor"],
        choices=[rival.name for rival in RIVALS],
    )
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in zoo.NAMES if arguments.all else arguments.networks:
            for threads in arguments.threads:
                rows.append(measure(name, threads, arguments, Path(folder)))
                print_row(rows[-1])
                for what, holds in rows[-1]["bars"].items():
                    print(f"    {'holds' if holds else 'FAILS'}: {what}", flush=True)
                write_json(arguments.json, rows)


if __name__ == "__main__":
    main()
