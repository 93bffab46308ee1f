"""Whole networks, tuned for two minutes each, against torch.compile with CUDA graphs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any, Final

import autosched
from autosched import zoo
from autosched.onnx.export import to_onnx
from autosched.runtime.module import Module
from benchmarks.gpu_parts.bench import Bench, verdict
from benchmarks.gpu_parts.rivals import EMULATED, cuda_torch, torch_seconds
from benchmarks.gpu_parts.row_log import Row
from benchmarks.harness import relative_error
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
_RUNS: Final = 50
_ROUNDS: Final = 9
_OURS: Final = "ours"
_RIVAL: Final = "torch.compile"


def run(bench: Bench) -> Iterator[Row]:
    """Two rows a network: the rival's, and ours with the ratio."""
    sizes = _SMALL if bench.small else _NETWORKS
    turns = {f"{name} {who}": (name, who) for name in sizes for who in (_RIVAL, _OURS)}
    found = dict(bench.known)
    for key, seconds in bench.turns(list(turns)):
        name, who = turns[key]
        network = zoo.build(name, image=sizes[name])
        try:
            if who == _RIVAL:
                found[key] = {"name": key} | _rival(bench, network)
            else:
                row = {"name": key} | _ours(bench, key, network, seconds)
                found[key] = row | _compared(row, found.get(f"{name} {_RIVAL}", {}))
        except AutoschedError as error:
            found[key] = {"name": key, "done": False, "error": str(error)}
        yield found[key]


def _compared(ours: Row, rival: Row) -> Row:
    if "rival_ms" not in rival:
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
    copied_s = module.benchmark(repeats=_RUNS).median
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
        for _ in range(_RUNS):
            module.run_on_device(inputs, stream.cuda_stream)

    with torch.cuda.stream(stream):
        runs()
        stream.synchronize()
        return median(torch_seconds(torch, runs) for _ in range(_ROUNDS)) / _RUNS


def _rival(bench: Bench, network: Any) -> Row:
    try:
        if bench.small:
            raise OSError(EMULATED)
        torch = cuda_torch()
    except OSError as error:
        return {"rival": f"no rival here: {error}", "done": True}
    from torch._inductor import config

    from benchmarks.rivals.torch_module import module_from_onnx

    config.freezing = True  # weights are constants, for us too

    model = to_onnx(network.graph).SerializeToString()
    module, names, _ = module_from_onnx(model)
    given = {value.name: value for value in network.inputs}
    inputs = [_tensor(torch, given[name]) for name in names]
    start = time.monotonic()
    module = module.cuda()
    for parameter in module.parameters():
        parameter.data = _laid_out(torch, parameter.data)
    expected = [t.cpu().numpy() for t in module(*inputs)]
    compiled = torch.compile(module, mode="max-autotune")
    for _ in range(5):  # compiles, warms up, captures
        outputs = compiled(*inputs)
    torch.cuda.synchronize()
    prepare_s = time.monotonic() - start
    pairs = zip(outputs, expected, strict=True)
    difference = max(relative_error(a.cpu().numpy(), b) for a, b in pairs)

    def runs() -> None:
        for _ in range(_RUNS):
            compiled(*inputs)

    seconds = median(torch_seconds(torch, runs) for _ in range(_ROUNDS)) / _RUNS
    return {
        "done": True,
        "rival": f"torch {torch.__version__} compile(max-autotune)",
        "rival_ms": seconds * 1e3,
        "prepare_s": prepare_s,
        "difference_to_eager": difference,
    }


def _tensor(torch: Any, value: Any) -> Any:
    if "int" in value.dtype:
        return torch.ones(value.shape, dtype=getattr(torch, value.dtype), device="cuda")
    return _laid_out(torch, torch.randn(value.shape, device="cuda"))


def _laid_out(torch: Any, tensor: Any) -> Any:
    """Images and their weights with channels last, which is fastest there."""
    return tensor.to(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor
