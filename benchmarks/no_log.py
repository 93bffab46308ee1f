"""Networks without a log: compiled, compared with a run in float64, and timed next to the rivals.

``python -m benchmarks.no_log --all --json FILE``; with ``--effort quick`` little is measured first,
with ``--effort model`` schedules that come with the release are left out, too.

Rows have the seconds that compiling took, and where ``--logs`` has a log of the network, the ratio
of the latency to that of the tuned network, timed in the same rounds.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import median

import autosched
from autosched import zoo
from autosched.compilation.network import network_contents
from autosched.records.accuracy import ACCURACIES
from autosched.runtime.link import link
from autosched.tuning.options import EFFORTS
from benchmarks.command_line import add_comparison, add_keep, add_networks
from benchmarks.contender import Contender
from benchmarks.harness import Options, compare
from benchmarks.network_cases import CASES
from benchmarks.network_errors import error_from_float64
from benchmarks.networks import exported
from benchmarks.ours import OursNetwork
from benchmarks.rivals import RIVALS
from benchmarks.rows import (
    Row,
    comparison_row,
    geometric_means,
    print_row,
    with_earlier,
    write_json,
)
from benchmarks.workloads import Network

TUNED = "tuned"


@dataclass(frozen=True, slots=True)
class Bars:
    """What networks without a log have to reach.

    Attributes:
        compile_s: most seconds of compiling one.
        median, worst: most latency over the tuned one.
    """

    compile_s: float
    median: float
    worst: float


MODEL_ALONE = "model"
_NOTHING = Bars(45.0, 1.12, 1.35)
BARS = {"draft": _NOTHING, MODEL_ALONE: _NOTHING, "quick": Bars(60.0, 1.05, 1.35)}


@dataclass(frozen=True, slots=True)
class Compiled:
    """A network that was compiled without a log.

    Attributes:
        workload: for the rivals.
        module: the saved file.
        compile_s: seconds of ``autosched.compile``.
        cpu_s: CPU seconds of it, over all threads.
        variants: kernels that compute their task in another way than it is written.
        tuned: the file of the same network, compiled with a log; None: there is no log.
    """

    workload: Network
    module: str
    compile_s: float
    cpu_s: float
    variants: int
    tuned: str | None


def compiled(name: str, threads: int, arguments: argparse.Namespace, folder: Path) -> Compiled:
    """Compile with and without the network's log; runs in a process of its own.

    Args:
        name: of the network.
        threads: of the modules.
        arguments: ``layout``, ``accuracy``, ``effort`` and ``logs``.
        folder: of the files.
    """
    log = Path(arguments.logs) / f"{name}.{threads}t.jsonl"
    layout, accuracy = arguments.layout, arguments.accuracy
    network, target = zoo.build(name, layout=layout), autosched.Target("cpu", threads=threads)
    start, cpu_start = time.perf_counter(), time.process_time()
    if arguments.effort == MODEL_ALONE:
        contents = network_contents(network, target, accuracy=accuracy, of_release=False)
        module = link(*contents)
    else:
        module = autosched.compile(network, target, accuracy=accuracy, effort=arguments.effort)
    seconds, cpu_s = time.perf_counter() - start, time.process_time() - cpu_start
    steps = module.program.kernel_steps
    path = folder / f"{name}.{threads}t.asd"
    module.save(path)
    tuned = None
    if log.exists():
        tuned = folder / f"{name}.{threads}t.tuned.asd"
        autosched.compile(network, target, log=log, accuracy=accuracy).save(tuned)
    return Compiled(
        exported(zoo.build(name), sum(step.info.flops for step in steps), folder, layout),
        str(path),
        seconds,
        cpu_s,
        sum(_of_variant(step.info.algorithm) for step in steps),
        None if tuned is None else str(tuned),
    )


def _of_variant(algorithm: str) -> bool:
    return bool(algorithm) and not algorithm.startswith("as written")


def measure(name: str, threads: int, arguments: argparse.Namespace, folder: Path) -> Row:
    """Compile, and compare in interleaved rounds."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        done = pool.submit(compiled, name, threads, arguments, folder).result()
    rivals: list[Contender] = [
        r for r in RIVALS if r.name in arguments.rivals and r.supports(done.workload)
    ]
    ours = [OursNetwork(done.module)]
    if done.tuned is not None:
        ours.append(OursNetwork(done.tuned, TUNED))
    options = Options(arguments.rounds, arguments.seconds)
    result = compare(done.workload, [*ours, *rivals], threads, options)
    row = comparison_row(name, threads, done.workload.flops, result, (TUNED,))
    row |= {"compile_s": done.compile_s, "compile_cpu_s": done.cpu_s, "variants": done.variants}
    row["max_error"] = error_from_float64(done.workload, result)
    if done.tuned is not None:
        row["tuned_ms"] = result.milliseconds(TUNED)
        row["ratio_to_tuned"] = row["ours_ms"] / row["tuned_ms"]
    return row


def bars_of(rows: Sequence[Row], bars: Bars) -> Row:
    """What the rows reached, and whether that holds."""
    ratios = [row["ratio_to_tuned"] for row in rows if "ratio_to_tuned" in row]
    found = {"compile_s": max(row["compile_s"] for row in rows)}
    if ratios:
        found |= {"median": median(ratios), "worst": max(ratios)}
    limits = {what: getattr(bars, what) for what in found}
    return {
        what: {"reached": value, "at_most": limits[what], "holds": value <= limits[what]}
        for what, value in found.items()
    }


def main() -> None:
    """Run the networks that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add_networks(parser)
    add_keep(parser)
    parser.add_argument("--accuracy", default="default", choices=ACCURACIES)
    parser.add_argument("--effort", default="draft", choices=(*EFFORTS, MODEL_ALONE))
    parser.add_argument("--logs", default="benchmarks/logs", help="of the tuned networks")
    add_comparison(parser, (2,), 1.0, ("openvino", "onnxruntime", "torch_inductor"))
    arguments = parser.parse_args()
    rows: list[Row] = []
    reached: Row = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in CASES if arguments.all else arguments.networks:
            for threads in arguments.threads:
                rows.append(measure(name, threads, arguments, Path(folder)))
                print_row(rows[-1])
                told = f"    compiled in {rows[-1]['compile_s']:.1f} s"
                if "ratio_to_tuned" in rows[-1]:
                    told += f", {rows[-1]['ratio_to_tuned']:.3f} x the tuned latency"
                print(told, flush=True)
                kept = with_earlier(arguments.json, rows) if arguments.keep else rows
                if arguments.effort in BARS:
                    reached = bars_of(kept, BARS[arguments.effort])
                means = geometric_means(kept, ("ratio", "ratio_to_tuned"))
                write_json(arguments.json, kept, means=means, bars=reached)
    for what, bar in reached.items():
        print(f"{what}: {bar['reached']:.3f}, bar {bar['at_most']:g}: {bar['holds']}")


if __name__ == "__main__":
    main()
