"""Whole networks, tuned for two minutes each, against torch.compile with CUDA graphs."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any, Final

import autosched
from autosched import zoo
from autosched.runtime.module import Module
from benchmarks.gpu_parts.bench import Bench, verdict
from benchmarks.gpu_parts.rivals import EMULATED, cuda_torch, torch_seconds
from benchmarks.gpu_parts.row_log import Row
from benchmarks.gpu_parts.torch_compiled import ROUNDS, RUNS, rival_row
from sketch.errors import AutoschedError

# Networks by size of the image, or tokens of a sequence; None: the network's own.
_NETWORKS: Final[Mapping[str, int | None]] = {
    "resnet-18": None, "mobilenet-v2": None, "bert-base": None,
}  # fmt: skip
_SMALL: Final[Mapping[str, int | None]] = {"mlp": None}
_TUNE_S: Final = 120.0
_SMALL_TUNE_S: Final = 2.0
_BAR: Final = 1.0
# Of a network's turn without tuning: compiling, timing, processes that end.
_END_S: Final = 20.0
_LEAST_S: Final = 1.0
_IN_FLIGHT: Final = 2  # results at a time: with one, each run waits for the end of the one before
_OURS: Final = "ours"
_RIVAL: Final = "torch.compile"


def run(bench: Bench) -> Iterator[Row]:
    """Two rows a network: ours, which comes again with the ratio, and the rival's.

    Ours come first: the rival may compile for minutes.
    """
    sizes = _SMALL if bench.small else _NETWORKS
    turns = {f"{name} {who}": (name, who) for who in (_OURS, _RIVAL) for name in sizes}
    found = dict(bench.known)
    for key, seconds in bench.turns(list(turns)):
        name, who = turns[key]
        if who == _RIVAL:
            found[key] = {"name": key} | _rival(bench, name, sizes[name], seconds)
            yield found[key]
        else:
            network = zoo.build(name, image=sizes[name])
            try:
                found[key] = {"name": key} | _ours(bench, key, network, seconds)
            except AutoschedError as error:
                found[key] = {"name": key, "done": False, "error": str(error)}
        ours, rival = (found.get(f"{name} {each}", {}) for each in (_OURS, _RIVAL))
        if ours:
            yield ours | _compared(ours, rival)


def _rival(bench: Bench, name: str, image: int | None, seconds: float) -> Row:
    if bench.small:
        return {"rival": f"no rival here: {EMULATED}", "done": True}
    return rival_row(name, image, seconds)


def _compared(ours: Row, rival: Row) -> Row:
    if "rival_ms" not in rival or "ours_ms" not in ours:
        return {"rival": rival.get("rival", "not measured yet"), "done": ours["done"]}
    ratio = rival["rival_ms"] / ours["ours_ms"]
    both = {key: rival[key] for key in ("rival", "rival_ms")} | {"ratio": ratio}
    return both | verdict(ratio, _BAR)


def _ours(bench: Bench, key: str, network: Any, seconds: float) -> Row:
    tuned_s, before = bench.tuned_s(key), time.monotonic()
    wanted = _SMALL_TUNE_S if bench.small else _TUNE_S
    budget = min(wanted - tuned_s, max(seconds - _END_S, 0.5 * seconds))
    if budget >= _LEAST_S:
        autosched.tune(network, bench.target, budget=budget, log=bench.log, quiet=True)
        tuned_s += max(time.monotonic() - before, budget)
    module = autosched.compile(network, bench.target, log=bench.log)
    copied_s = module.benchmark(repeats=RUNS).median
    streamed_s = _streamed_seconds(bench, module)
    return {
        "done": tuned_s >= wanted - _LEAST_S,
        "tuned_s": tuned_s,
        "kernels": len(module.program.kernel_steps),
        "host_operators": len(module.program.host_steps),
        "untuned": len(module.untuned),
        "with_copies_ms": copied_s * 1e3,
        "in_a_stream_ms": None if streamed_s is None else streamed_s * 1e3,
        "ours_ms": min(copied_s, streamed_s or copied_s) * 1e3,
    }


def _streamed_seconds(bench: Bench, module: Module) -> float | None:
    """Median seconds of runs whose inputs and outputs stay on the device; None without PyTorch.

    By events in a stream of PyTorch's, so that the time of Python between runs counts; the time
    with copies is by the device's clock alone.
    """
    if bench.small:
        return None
    try:
        torch = cuda_torch()
    except OSError:
        return None
    arrays = module.random_inputs()
    inputs = {name: torch.from_numpy(array).cuda() for name, array in arrays.items()}
    stream = torch.cuda.Stream()

    def runs() -> None:
        kept: deque[object] = deque(maxlen=_IN_FLIGHT)  # whose memory the next run must not take
        for _ in range(RUNS):
            kept.append(module.run_on_device(inputs, stream.cuda_stream))

    with torch.cuda.stream(stream):
        runs()
        stream.synchronize()
        return median(torch_seconds(torch, runs) for _ in range(ROUNDS)) / RUNS
