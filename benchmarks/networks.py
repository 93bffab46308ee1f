"""Whole networks: tuned, compiled, compared with a run in float64, and timed next to the rivals.

``python -m benchmarks.networks --networks resnet-18 --budget 10m --json FILE``

Tuning goes on from the logs in ``--logs``; with ``--skip-tuned`` only tasks without a record are
tuned, and the budget shrinks with their number.  ``--batch 1 4 16`` runs each network with several
images, or sequences, at once.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import autosched
from autosched import zoo
from autosched.compilation.network import extract_checked, network_tasks
from autosched.graph.ir import Network as ZooNetwork
from autosched.graph.ops.base import Layout
from autosched.onnx.export import to_onnx
from autosched.records.log import RecordLog
from autosched.search.recall import best_of
from autosched.tuning.options import parse_budget
from benchmarks.alone import sum_of_tasks
from benchmarks.command_line import (
    NETWORK_RIVALS,
    add_comparison,
    add_keep,
    add_networks,
    add_tuning,
)
from benchmarks.contender import Contender
from benchmarks.harness import Options, compare
from benchmarks.network_cases import CASES, Case, flags
from benchmarks.network_errors import error_from_float64
from benchmarks.ours import OursNetwork
from benchmarks.peak import Peak
from benchmarks.rivals import RIVALS
from benchmarks.rows import Row, comparison_row, print_bars, print_row, with_earlier, write_json
from benchmarks.workloads import Network
from codegen.host import host_target
from sketch.target.target import Target


@dataclass(frozen=True, slots=True)
class Tuned:
    """A network that was tuned.

    Attributes:
        module: the saved file.
        flops: of a run.
        sum_of_tasks: what all of its kernels take, each alone, over what the network takes.
    """

    module: str
    flops: float
    sum_of_tasks: float


def measure(case: Case, threads: int, arguments: argparse.Namespace, folder: Path) -> Row:
    """Tune within the budget, compile, save, and compare in interleaved rounds.

    No weights stay in this process while the contenders run.
    """
    network = zoo.build(case.name, batch=case.batch, layout=arguments.layout)
    tuned = tune(case.label, network, threads, arguments, folder)
    network = zoo.build(case.name, batch=case.batch)
    workload = exported(network, tuned.flops, folder, arguments.layout)
    return compared(case, workload, tuned, threads, arguments)


def compared(
    case: Case, workload: Network, tuned: Tuned, threads: int, arguments: argparse.Namespace
) -> Row:
    """The row of a network: our times and the rivals', errors, and the bars.

    Args:
        case: what has to be reached.
        workload: the network, for the rivals.
        tuned: the network, for us.
        threads: that all contenders have.
        arguments: ``rivals``, ``rounds``, ``seconds`` and ``budget``.
    """
    chosen: list[Contender] = [
        r for r in RIVALS if r.name in arguments.rivals and r.supports(workload)
    ]
    options = Options(arguments.rounds, arguments.seconds)
    contenders: list[Contender] = [OursNetwork(tuned.module), Peak(), *chosen]
    result = compare(workload, contenders, threads, options)
    row = comparison_row(case.label, threads, workload.flops, result)
    row["budget"] = arguments.budget
    row["sum_of_tasks"] = tuned.sum_of_tasks
    row["max_error"] = error_from_float64(workload, result)
    row["flags"] = flags(row)
    row["bars"] = case.bars(row)
    return row


def tune(
    name: str, network: ZooNetwork, threads: int, arguments: argparse.Namespace, folder: Path
) -> Tuned:
    """Tune within the budget, compile and save.

    Args:
        name: of the log and of the file.
        network: what is tuned.
        threads: that it is tuned for.
        arguments: ``budget``, ``logs`` and ``skip_tuned``.
        folder: of the file.
    """
    target = host_target(threads)
    log = Path(arguments.logs) / f"{name}.{threads}t.jsonl"
    log.parent.mkdir(parents=True, exist_ok=True)
    _tune(network, target, arguments, log)
    module = autosched.compile(network, target=target, log=log)
    path = folder / f"{name}.{threads}t.asd"
    module.save(path)
    flops = sum(step.info.flops for step in module.program.steps)
    return Tuned(str(path), flops, sum_of_tasks(module, path, network, log))


def exported(network: ZooNetwork, flops: float, folder: Path, layout: Layout) -> Network:
    """The network as an ONNX model in ``folder``, for the rivals.

    Args:
        network: NCHW.
        flops: of a run.
        folder: of the file.
        layout: of our module.
    """
    model = folder / f"{network.name}.onnx"
    model.write_bytes(to_onnx(network.graph).SerializeToString())
    return Network(
        network.name,
        str(model),
        tuple((value.name, value.shape, value.dtype) for value in network.inputs),
        tuple(value.name for value in network.outputs),
        flops,
        channels_last=layout == "NHWC",
    )


def _tune(network: ZooNetwork, target: Target, arguments: argparse.Namespace, log: Path) -> None:
    if arguments.budget == "0":
        return
    budget_s = parse_budget(arguments.budget)
    if arguments.skip_tuned:
        records = RecordLog(log).read().records
        tasks = network_tasks(extract_checked(network, target), target)
        budget_s *= sum(best_of(task, records) is None for task in tasks) / len(tasks)
    if budget_s:
        autosched.tune(network, target, budget=budget_s, log=log, skip_tuned=arguments.skip_tuned)


def main() -> None:
    """Run the networks that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add_networks(parser)
    parser.add_argument("--batch", nargs="+", type=int, default=[1], help="images of a run")
    add_keep(parser)
    add_tuning(parser, "10m", "out/networks")
    add_comparison(parser, (2, 1), 1.0, NETWORK_RIVALS)
    arguments = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        names = CASES if arguments.all else arguments.networks
        for name, batch, threads in product(names, arguments.batch, arguments.threads):
            rows.append(measure(CASES[name].batched(batch), threads, arguments, Path(folder)))
            print_row(rows[-1])
            print_bars(rows[-1])
            kept = with_earlier(arguments.json, rows) if arguments.keep else rows
            write_json(arguments.json, kept)


if __name__ == "__main__":
    main()
