"""Whole networks: tuned, compiled, compared with a run in float64, and timed next to the rivals.

``python -m benchmarks.networks --networks resnet-18 --budget 10m --json FILE``

Tuning goes on from the logs in ``--logs``; with ``--skip-tuned`` only tasks without a record are
tuned, and the budget shrinks with their number.  ``--batch 1 4 16`` runs each network with several
images, or sequences, at once.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Final

import autosched
from autosched import zoo
from autosched.compilation.network import cache_state_of, extract_checked, network_tasks
from autosched.graph.ir import Network as ZooNetwork
from autosched.graph.ops.base import Layout
from autosched.measure.options import MeasureOptions
from autosched.measure.result import CacheState, Timing
from autosched.measure.runner import LocalRunner
from autosched.onnx.export import to_onnx
from autosched.records.log import RecordLog
from autosched.records.record import Record
from autosched.runtime.module import Module
from autosched.search.recall import best_of, usable
from autosched.search.space import draft_candidate
from autosched.tasks.candidate import Candidate
from autosched.tasks.spec import TaskSpec
from autosched.tuning.options import parse_budget
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

# Rounds in which a kernel is timed alone.
_ALONE: Final = 9


@dataclass(frozen=True, slots=True)
class Tuned:
    """A network that was tuned.

    Attributes:
        module: the saved file.
        flops: of a run.
        sum_of_tasks_ms: what all of its kernels take, each timed alone.
    """

    module: str
    flops: float
    sum_of_tasks_ms: float


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
    row["sum_of_tasks_ms"] = tuned.sum_of_tasks_ms
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
    return Tuned(str(path), flops, _sum_of_tasks(module, network, log))


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


def _sum_of_tasks(module: Module, network: ZooNetwork, log: Path) -> float:
    """What all kernels of the module take, each timed alone, now: in milliseconds.

    A task may have to do with a slower variant, for the sake of the network's error.
    """
    records, target = RecordLog(log).read().records, module.target
    extraction = extract_checked(network, target)
    state = cache_state_of(extraction, target)
    uses = Counter(step.info.task for step in module.program.steps)
    variants = {
        step.info.task: step.info.algorithm.partition(", ")[0] for step in module.program.steps
    }
    total = 0.0
    with LocalRunner(target, MeasureOptions(cache_state=state, inputs="aligned")) as runner:
        for task in network_tasks(extraction, target):
            candidate = _candidate(task, records, variants.get(task.key, ""), state)
            (result,) = runner.remeasure(task, [candidate], _ALONE)
            if isinstance(result, Timing):
                total += uses[task.key] * result.median
    return total * 1e3


def _candidate(
    task: TaskSpec, records: Sequence[Record], named: str, state: CacheState
) -> Candidate:
    """The best of a task by the variant ``named``, or else as it is written."""
    known = {variant.name for variant in task.variants}
    wanted = named if named in known else task.variants[0].name
    own = [record for record in records if record.variant == wanted]
    found = next(usable(task, own, state), None)
    return draft_candidate(task) if found is None else found.candidate


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
