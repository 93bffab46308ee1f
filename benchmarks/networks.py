"""Whole networks: tuned, compiled, checked against onnxruntime, and timed next to the rivals.

``python -m benchmarks.networks --networks resnet-18 --budget 10m --json FILE``

Tuning goes on from the logs in ``--logs``; with ``--skip-tuned`` only tasks without a record are
tuned, and the budget shrinks with their number.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import autosched
from autosched import zoo
from autosched.compilation.network import extract_checked, network_tasks
from autosched.graph.ir import Network as ZooNetwork
from autosched.onnx.export import to_onnx
from autosched.records.best import rank, select
from autosched.records.log import RecordLog
from autosched.runtime.module import Module
from autosched.search.recall import best_of
from autosched.tuning.options import parse_budget
from benchmarks.command_line import add_comparison, add_networks
from benchmarks.contender import Contender
from benchmarks.fma_peak import FmaPeak
from benchmarks.harness import OURS, Comparison, Options, compare, relative_error
from benchmarks.network_cases import CASES, Case, flags
from benchmarks.ours import OursNetwork
from benchmarks.rivals import RIVALS
from benchmarks.rows import Row, comparison_row, print_row, write_json
from benchmarks.workloads import Network
from codegen.host import host_target
from sketch.target.target import Target

REFERENCE = "onnxruntime"


def measure(case: Case, threads: int, arguments: argparse.Namespace, folder: Path) -> Row:
    """Tune within the budget, compile, save, and compare in interleaved rounds."""
    target = host_target(threads)
    log = Path(arguments.logs) / f"{case.name}.{threads}t.jsonl"
    log.parent.mkdir(parents=True, exist_ok=True)
    workload, compiled, sum_of_tasks_ms = _prepare(case.name, target, arguments, log, folder)
    chosen: list[Contender] = [
        r for r in RIVALS if r.name in arguments.rivals and r.supports(workload)
    ]
    options = Options(arguments.rounds, arguments.seconds)
    contenders: list[Contender] = [OursNetwork(str(compiled)), FmaPeak(), *chosen]
    result = compare(workload, contenders, threads, options)
    row = comparison_row(case.name, threads, workload.flops, result)
    row["budget"] = arguments.budget
    row["sum_of_tasks_ms"] = sum_of_tasks_ms
    row["max_error"] = max_error(workload, result)
    row["flags"] = flags(row)
    row["bars"] = case.bars(row)
    return row


def _prepare(
    name: str, target: Target, arguments: argparse.Namespace, log: Path, folder: Path
) -> tuple[Network, Path, float]:
    """The workload, the compiled module, and what the log promises for it in milliseconds.

    Nothing of the network stays in this process while the contenders run.
    """
    network = zoo.build(name)
    _tune(network, target, arguments, log)
    module = autosched.compile(network, target=target, log=log)
    compiled = folder / f"{name}.{target.threads}t.asd"
    module.save(compiled)
    flops = sum(step.info.flops for step in module.program.steps)
    return exported(network, flops, folder), compiled, _sum_of_tasks(module, log)


def exported(network: ZooNetwork, flops: float, folder: Path) -> Network:
    """The network as an ONNX model in ``folder``, for the rivals."""
    model = folder / f"{network.name}.onnx"
    model.write_bytes(to_onnx(network.graph).SerializeToString())
    return Network(
        network.name,
        str(model),
        tuple((value.name, value.shape, value.dtype) for value in network.inputs),
        tuple(value.name for value in network.outputs),
        flops,
    )


def _tune(network: ZooNetwork, target: Target, arguments: argparse.Namespace, log: Path) -> None:
    if arguments.budget == "0":
        return
    budget_s = parse_budget(arguments.budget)
    if arguments.skip_tuned:
        records = RecordLog(log).read().records
        tasks = network_tasks(extract_checked(network), target)
        budget_s *= sum(best_of(task, records) is None for task in tasks) / len(tasks)
    if budget_s:
        autosched.tune(network, target, budget=budget_s, log=log, skip_tuned=arguments.skip_tuned)


def _sum_of_tasks(module: Module, log: Path) -> float:
    """What the log promises: the measured times of all kernels, in milliseconds."""
    records = RecordLog(log).read().records
    tasks = [step.info.task for step in module.program.steps]
    ranked = {task: rank(select(records, task, module.target)) for task in set(tasks)}
    return sum(ranked[task][0][0] for task in tasks if ranked[task]) * 1e3


def max_error(workload: Network, result: Comparison) -> float:
    """Of our results, relative to the largest output of onnxruntime; NaN where it did not run."""
    if REFERENCE not in result.outputs:
        return float("nan")
    ours, reference = result.outputs[OURS], result.outputs[REFERENCE]
    return max(relative_error(ours[name], reference[name]) for name in workload.outputs)


def main() -> None:
    """Run the networks that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add_networks(parser)
    parser.add_argument("--budget", default="10m", help="tuning time of each row; 0: only the log")
    parser.add_argument(
        "--skip-tuned", action="store_true", help="only tune tasks without a record in the log"
    )
    parser.add_argument("--logs", default="out/networks", help="directory of the tuning logs")
    add_comparison(
        parser, (2, 1), 1.0, ("openvino", "onnxruntime", "torch_eager", "torch_inductor")
    )
    arguments = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in CASES if arguments.all else arguments.networks:
            for threads in arguments.threads:
                rows.append(measure(CASES[name], threads, arguments, Path(folder)))
                print_row(rows[-1])
                for flag in rows[-1]["flags"]:
                    print(f"    INCOMPLETE: {flag}")
                for what, holds in rows[-1]["bars"].items():
                    print(f"    {'holds' if holds else 'FAILS'}: {what}", flush=True)
                write_json(arguments.json, rows)


if __name__ == "__main__":
    main()
