"""Latency of networks against seconds of tuning: one run a seed, compiled again at checkpoints.

``python -m benchmarks.time_to_quality --networks resnet-18 --seconds 60 180 --seeds 3 --json FILE
--picture FILE.png --known FOLDER``

The curve is the sum of the tasks' best bursts so far, from the log of the run.  At the checkpoints
the network is compiled with the records of that moment, and the modules are timed in turns; so is
the one of a long run in FOLDER, as of ``autosched tune resnet-18 --budget 30m --set stop_below=0
--log FOLDER/resnet-18.2t.jsonl``.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, product
from pathlib import Path
from statistics import median
from typing import Any

import autosched
from autosched import zoo
from autosched.compilation.network import compile_network, extract_checked, network_tasks
from autosched.graph.ir import Network
from autosched.measure.result import Timing
from autosched.records.log import RecordLog
from autosched.records.record import Record
from autosched.runtime.module import Module
from autosched.tuning.job import TuneJob
from autosched.tuning.networks import tune_networks
from autosched.tuning.options import TuneOptions
from benchmarks.command_line import add_networks
from benchmarks.network_cases import CASES
from benchmarks.rows import Row, write_json
from sketch.target.target import Target

CHECKPOINTS = (15.0, 30.0, 60.0, 120.0, 180.0, 300.0, 600.0, 1200.0, 1800.0)
ROUNDS = 30
PARTS = (0.05, 0.02)
KNOWN = "known"

Timings = Callable[[Sequence[Module]], list[float]]
"""Seconds of each module."""


@dataclass(frozen=True, slots=True)
class Point:
    """A moment of a run.

    Attributes:
        seconds: since it began.
        trials: made until then.
        sum_s: of the best bursts of all tasks, weighted, in seconds.
    """

    seconds: float
    trials: int
    sum_s: float


def curve(records: Sequence[Record], weights: Mapping[str, float], began: float) -> list[Point]:
    """After each batch, from the one on that gave the last task a time.

    Args:
        records: of one run, in the order of the log.
        weights: how often each task occurs in the network, by its key.
        began: seconds since 1970 when the run began.
    """
    best: dict[str, float] = {}
    points: list[Point] = []
    trials = 0
    searched = (record for record in records if record.phase == "trial")
    for now, batch in groupby(searched, key=lambda record: record.time):
        for record in batch:
            trials += 1
            if isinstance(record.result, Timing):
                known = best.get(record.task, record.result.median)
                best[record.task] = min(known, record.result.median)
        if best.keys() >= weights.keys():
            total = sum(weight * best[key] for key, weight in weights.items())
            points.append(Point(now - began, trials, total))
    return points


def seconds_within(points: Iterable[Point], part: float) -> float | None:
    """When the sum first was at most ``1 + part`` times that of the end; None without points."""
    known = list(points)
    limit = (1.0 + part) * known[-1].sum_s if known else 0.0
    return next((point.seconds for point in known if point.sum_s <= limit), None)


def measure(
    network: Network,
    target: Target,
    job: TuneJob,
    checkpoints: Sequence[float],
    timings: Timings,
    known: Sequence[Record] = (),
) -> Row:
    """Tune once, and look back.

    Args:
        network: what is tuned.
        target: for which machine.
        job: the run; its log is new.
        checkpoints: seconds after which the network would have been compiled.
        timings: latencies of modules.
        known: records of the best known schedules, whose module is timed, too; none: it is not.
    """
    assert job.log is not None
    began = job.now()
    tune_networks([network], target, job)
    records = job.log.read().records
    tasks = network_tasks(extract_checked(network, target), target)
    points = curve(records, {task.key: task.weight for task in tasks}, began)
    ends = [s for s in checkpoints if points and s < points[-1].seconds]
    early = [_until(records, began + s) for s in ends]
    modules = [compile_network(network, target, found) for found in ((), *early, records)]
    names = ["0", *(f"{s:g}" for s in ends), "end"]
    if known:
        modules.append(compile_network(network, target, known))
        names.append(KNOWN)
    latencies = dict(zip(names, timings(modules), strict=True))
    return {
        "name": network.name,
        "threads": target.threads,
        "seconds": job.options.budget_s,
        "seed": job.options.seed,
        "trials": points[-1].trials if points else 0,
        "curve": [[p.seconds, p.trials, p.sum_s * 1e3] for p in points],
        "latency_ms": {when: seconds * 1e3 for when, seconds in latencies.items()},
        "of_end": _over(latencies, "end"),
        "of_known": _over(latencies, KNOWN) if known else {},
        "seconds_within": {f"{part:g}": seconds_within(points, part) for part in PARTS},
        "rivals_ms": {},
    }


def _over(latencies: Mapping[str, float], base: str) -> dict[str, float]:
    """What the run gave, over one of the latencies."""
    return {when: s / latencies[base] for when, s in latencies.items() if when != KNOWN}


def _until(records: Sequence[Record], moment: float) -> tuple[Record, ...]:
    return tuple(record for record in records if record.time <= moment)


def in_turns(modules: Sequence[Module]) -> list[float]:
    """Median seconds of each module over rounds in which each of them runs once, and once before.

    Their inputs are equal.
    """
    inputs = modules[0].random_inputs()
    taken: list[list[float]] = [[] for _ in modules]
    for _ in range(ROUNDS):
        for module, seconds in zip(modules, taken, strict=True):
            module.run(inputs)
            start = time.perf_counter()
            module.run(inputs)
            seconds.append(time.perf_counter() - start)
    return [median(seconds) for seconds in taken]


def draw(rows: Sequence[Row], path: Path) -> None:
    """One picture: latencies and sums of tasks over the best known, for each network and run; over
    the run's own end where no better is known.

    Runs that ended before every task had a time have no curve.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes: Any = figure.subplots()
    drawn = [row for row in rows if row["curve"]]
    names = list(dict.fromkeys(row["name"] for row in drawn))
    for row in drawn:
        color = f"C{names.index(row['name'])}"
        of_best, end = row["of_known"] or row["of_end"], row["curve"][-1]
        label = row["name"] if row is next(r for r in drawn if r["name"] == row["name"]) else None
        sums = [point[2] / end[2] * of_best["end"] for point in row["curve"]]
        seconds = [point[0] for point in row["curve"]]
        axes.step(seconds, sums, where="post", color=color, alpha=0.5, label=label)
        axes.plot(end[0], of_best["end"], "o", color=color)
    for part in PARTS:
        axes.axhline(1.0 + part, color="grey", linestyle=":")
    axes.set(
        xscale="log" if drawn else "linear", xlabel="seconds of tuning",
        ylabel="over the best known: sum of tasks (line), latency (dot)",
    )  # fmt: skip
    if drawn:
        axes.legend(fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main() -> None:
    """A row for each network, length of a run and seed, written after each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add_networks(parser)
    parser.add_argument("--seconds", nargs="+", type=float, default=[60.0, 180.0], help="of runs")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--known", type=Path, metavar="FOLDER", help="logs NAME.THREADSt.jsonl of the best known"
    )
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--picture", metavar="FILE", type=Path)
    arguments = parser.parse_args()
    target = autosched.Target("cpu", threads=arguments.threads)
    rows: list[Row] = []
    names = CASES if arguments.all else arguments.networks
    for name, seconds, seed in product(names, arguments.seconds, range(arguments.seeds)):
        options = TuneOptions(budget_s=seconds, stop_below=0.0, seed=seed)
        with tempfile.TemporaryDirectory() as folder:
            job = TuneJob(options=options, log=RecordLog(Path(folder) / "log.jsonl"))
            known = _known(arguments.known, name, target)
            rows.append(measure(zoo.build(name), target, job, CHECKPOINTS, in_turns, known))
        print(_line(rows[-1]), flush=True)
        write_json(arguments.json, rows)
        if arguments.picture is not None:
            draw(rows, arguments.picture)


def _known(folder: Path | None, name: str, target: Target) -> Sequence[Record]:
    if folder is None:
        return ()
    return RecordLog(folder / f"{name}.{target.threads}t.jsonl").read().records


def _line(row: Row) -> str:
    parts = [f"{when} s {of:.3f}" for when, of in row["of_end"].items() if when != "end"]
    end = f"{row['latency_ms']['end']:.4g} ms"
    told = f"{row['name']} {row['seconds']:g} s, seed {row['seed']}: {end}"
    told += f"; over it after {', '.join(parts)}"
    known = f"; over the best known {row['of_known']['end']:.3f}" if row["of_known"] else ""
    return told + known


if __name__ == "__main__":
    main()
