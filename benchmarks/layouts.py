"""Convolutions with channels last, and with blocks of channels outside of the image.

``python -m benchmarks.layouts --json FILE``

``[N, H, W, C]`` against ``[N, C / 16, H, W, 16]``, data and results alike, both as they are written
(no variant) and after the same number of trials.  What a change of layout between two layers costs
is not counted, so that ``blocked`` is what a network could gain at most by choosing layouts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import autosched
from autosched import Task
from benchmarks.rows import Row, geometric_means, write_json
from codegen.host import host_target
from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.expr import Axis, Expr, select
from sketch.lang.tensor import Tensor, compute, placeholder, reduce_axis
from sketch.operators.conv import conv2d, depthwise_conv
from sketch.operators.window import inside

_LANES: Final = 16
_RUNS_S: Final = 0.05
_ROUNDS: Final = 15
_TOLERANCE: Final = 1e-5


@dataclass(frozen=True, slots=True)
class Layer:
    """A convolution of square windows over a square image; one image.

    Attributes:
        size: of the image, in elements.
        inputs: channels.
        outputs: channels; as many as ``inputs`` where it is depthwise.
        kernel: extent of the windows.
        stride: of the windows.
        depthwise: each channel has a filter of its own.
    """

    size: int
    inputs: int
    outputs: int
    kernel: int
    stride: int = 1
    depthwise: bool = False

    @property
    def name(self) -> str:
        kind = "depthwise" if self.depthwise else "conv"
        window = f"{self.kernel}x{self.kernel}"
        return f"{kind}{window}_{self.size}_{self.inputs}_{self.outputs}_s{self.stride}"

    @property
    def positions(self) -> int:
        """Results along a side."""
        return (self.size + 2 * (self.kernel // 2) - self.kernel) // self.stride + 1


LAYERS: Final = (
    Layer(56, 64, 64, 1),
    Layer(56, 64, 256, 1),
    Layer(56, 64, 64, 3),
    Layer(28, 512, 128, 1),
    Layer(28, 128, 128, 3),
    Layer(28, 256, 512, 1, 2),
    Layer(14, 1024, 256, 1),
    Layer(14, 256, 256, 3),
    Layer(7, 512, 512, 3),
    Layer(7, 512, 2048, 1),
    Layer(112, 32, 32, 3, depthwise=True),
    Layer(56, 144, 144, 3, 2, depthwise=True),
    Layer(14, 384, 384, 3, depthwise=True),
)


def last(layer: Layer) -> ComputeDAG:
    """``x`` [N, H, W, C] and ``w`` [R, S, C, O] give ``y`` [N, H, W, O]."""
    data = placeholder((1, layer.size, layer.size, layer.inputs), name="x")
    pad = layer.kernel // 2
    shape = (layer.kernel, layer.kernel, 1 if layer.depthwise else layer.inputs, layer.outputs)
    weight = placeholder(shape, name="w", constant=True)
    make = depthwise_conv if layer.depthwise else conv2d
    return ComputeDAG([make(data, weight, layer.stride, pad, name="y")])


def blocked(layer: Layer) -> ComputeDAG:
    """``x`` [N, C / 16, H, W, 16] and ``w`` [R, S, C / 16, 16, O / 16, 16], of a depthwise one
    [R, S, C / 16, 16], give ``y`` [N, O / 16, H, W, 16].
    """
    blocks, size, pad = layer.inputs // _LANES, layer.size, layer.kernel // 2
    data = placeholder((1, blocks, size, size, _LANES), name="x")
    ends = () if layer.depthwise else (layer.outputs // _LANES, _LANES)
    shape = (layer.kernel, layer.kernel, blocks, _LANES, *ends)
    weight = placeholder(shape, name="w", constant=True)
    taps = [reduce_axis(layer.kernel, name) for name in ("rh", "rw") if layer.kernel > 1]
    own = [] if layer.depthwise else [reduce_axis(blocks, "rb"), reduce_axis(_LANES, "rc")]

    def result(n: Axis, block: Axis, h: Axis, w: Axis, lane: Axis) -> Expr:
        moved: list[Expr] = [h * layer.stride, w * layer.stride]
        places = [p + t - pad for p, t in zip(moved, taps, strict=True)] if taps else moved
        known = inside(*((place, size) for place in places))
        term = _term(data, weight, (n, block, *places, lane), taps or (0, 0), own)
        return reducers.sum(term if known is None else select(known, term, 0.0), (*taps, *own))

    positions = layer.positions
    shape = (1, layer.outputs // _LANES, positions, positions, _LANES)
    return ComputeDAG([compute(shape, result, "y")])


def _term(
    data: Tensor,
    weight: Tensor,
    place: tuple[Any, ...],
    taps: Sequence[Any],
    own: Sequence[Axis],
) -> Expr:
    """A product of one window; ``own``: block and lane of the input's channel, if it has its own.

    Args:
        data: blocked.
        weight: blocked.
        place: image, block, row, column and lane; of the result but for row and column.
        taps: row and column in the window.
        own: none where it is depthwise.
    """
    n, block, row, column, lane = place
    if not own:
        return data[n, block, row, column, lane] * weight[(*taps, block, lane)]
    outer, inner = own
    return data[n, outer, row, column, inner] * weight[(*taps, outer, inner, block, lane)]


def reordered(layer: Layer, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """``x`` and ``w`` of ``last`` as ``blocked`` has them."""
    blocks, ends = layer.inputs // _LANES, (layer.outputs // _LANES, _LANES)
    image = arrays["x"].reshape(1, layer.size, layer.size, blocks, _LANES)
    inner = (blocks, _LANES) if layer.depthwise else (blocks, _LANES, *ends)
    weight = arrays["w"].reshape(layer.kernel, layer.kernel, *inner)
    return {"x": np.ascontiguousarray(image.transpose(0, 3, 1, 2, 4)), "w": weight}


def measure(layer: Layer, arguments: argparse.Namespace) -> Row:
    """Milliseconds of both, and the median of their ratios in interleaved rounds."""
    target, rng = host_target(arguments.threads), np.random.default_rng(0)
    tasks = {"last": Task(last(layer), target), "blocked": Task(blocked(layer), target)}
    arrays: dict[str, NDArray[Any]] = {
        value.name: rng.standard_normal(value.shape, dtype=np.float32)
        for value in tasks["last"].dag.inputs
    }
    given = {"last": arrays, "blocked": reordered(layer, arrays)}
    runs: dict[str, Callable[[], Mapping[str, NDArray[Any]]]] = {}
    for name, task in tasks.items():
        log = Path(arguments.logs) / f"{layer.name}.{name}.jsonl"
        log.parent.mkdir(parents=True, exist_ok=True)
        task.tune(arguments.trials, log=log, accuracy="as written")
        module = task.module({"w": given[name]["w"]}, log, accuracy="as written")
        module.pin_threads()
        runs[name] = partial(module.run, {"x": given[name]["x"]})
    results = {name: run()["y"] for name, run in runs.items()}
    plain = results["blocked"].transpose(0, 2, 3, 1, 4).reshape(results["last"].shape)
    if np.abs(plain - results["last"]).max() > _TOLERANCE * np.abs(plain).max():
        raise autosched.AutoschedError(f"layouts of {layer.name} give different results")
    rounds = np.array([[_seconds(run) for run in runs.values()] for _ in range(_ROUNDS)])
    names = list(runs)
    medians = dict(zip(names, np.median(rounds, axis=0).tolist(), strict=True))
    ratios = rounds[:, names.index("last")] / rounds[:, names.index("blocked")]
    times = {f"{name}_ms": seconds * 1e3 for name, seconds in medians.items()}
    return {"name": layer.name, **times, "ratio": float(np.median(ratios))}


def _seconds(run: Callable[[], object]) -> float:
    """Median of the runs of a while."""
    found: list[float] = []
    end = time.perf_counter() + _RUNS_S
    while (begin := time.perf_counter()) < end:
        run()
        found.append(time.perf_counter() - begin)
    return float(np.median(found))


def main() -> None:
    """Measure all layers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--logs", default="out/layouts", help="directory of the tuning logs")
    parser.add_argument("--json", help="file for the rows")
    arguments = parser.parse_args()
    rows: list[Row] = []
    for layer in LAYERS:
        rows.append(measure(layer, arguments))
        print(
            "{name:28} last {last_ms:.4f} ms, blocked {blocked_ms:.4f}: {ratio:.3f}".format(
                **rows[-1]
            )
        )
        write_json(arguments.json, rows, means=geometric_means(rows, ("ratio",)))


if __name__ == "__main__":
    main()
