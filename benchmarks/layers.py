"""Layers that are limited by memory or by few channels, after at most 200 trials each.

``python -m benchmarks.layers --json benchmarks/results/layers.json``

Depthwise convolutions in chains of eight, grouped convolutions, softmax, layer normalisation and
GELU.  Everyone runs the same ONNX file, so that a row has what a network would pay: our rows have
the changes of layout at the edge of a chain.  ``of_limit`` is the share of what the machine could
do at best, as ``Module.explain`` counts it, in the time of the kernels; ``of_limit_whole`` in that
of a whole call, to which Python adds some microseconds.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from math import prod
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import autosched
from benchmarks.command_line import NETWORK_RIVALS, add_comparison
from benchmarks.contender import Contender
from benchmarks.harness import Options, compare
from benchmarks.network_errors import error_from_float64
from benchmarks.onnx_models import IR_VERSION, OPSET
from benchmarks.ours import OursNetwork
from benchmarks.rivals import RIVALS
from benchmarks.rows import Row, comparison_row, geometric_means, print_bars, print_row, write_json
from benchmarks.workloads import Network
from codegen.host import host_target

ERROR_BAR: Final = 2e-5
_GELU_OPSET: Final = 20
_GELU_IR: Final = 9
_KERNEL: Final = 3


@dataclass(frozen=True, slots=True)
class Layer:
    """``count`` equal operators, one after the other.

    Attributes:
        name: of the row.
        kind: ONNX's operator.
        shape: of the data, [1, channels, height, width] or [rows, columns].
        ratio_bar: what ``ratio_low`` (fastest rival / ours) has to reach; 0: nothing.
        limit_bar: what share of the machine's limit it has to reach; 0: nothing.
        count: how many.
        groups: of a convolution.
        rivals: whom ``ratio_bar`` is against; empty: all.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    ratio_bar: float = 0.0
    limit_bar: float = 0.0
    count: int = 1
    groups: int = 1
    rivals: tuple[str, ...] = ()

    def bars(self, row: Row) -> dict[str, bool]:
        """Each bar, and whether ``row`` reaches it."""
        found = {f"error <= {ERROR_BAR:g}": row["max_error"] <= ERROR_BAR}
        against = self.rivals or tuple(row["ratios"])
        if self.ratio_bar:
            low = min(row["ratios"][rival]["ratio_low"] for rival in against)
            found[f"ratio_low >= {self.ratio_bar:g} to {', '.join(against)}"] = (
                low >= self.ratio_bar
            )
        if self.limit_bar:
            found[f"of limit >= {self.limit_bar:g}"] = row["of_limit"] >= self.limit_bar
        return {what: bool(holds) for what, holds in found.items()}


def _depthwise(size: int, channels: int) -> Layer:
    shape = (1, channels, size, size)
    name = f"depthwise3x3_{size}_{channels}_x8"
    return Layer(name, "Conv", shape, 1.5, count=8, groups=channels, rivals=("torch_eager",))


def _grouped(size: int, channels: int, width: int) -> Layer:
    name = f"grouped3x3_{size}_{channels}_by_{width}"
    groups = channels // width
    return Layer(name, "Conv", (1, channels, size, size), 1.0, groups=groups, rivals=("openvino",))


LAYERS: Final = (
    *(_depthwise(size, channels) for size, channels in ((112, 96), (56, 64), (28, 128))),
    *(_grouped(*case) for case in ((56, 64, 8), (28, 128, 16), (14, 384, 48))),
    Layer("softmax_1536_128", "Softmax", (1536, 128), 1.1, 0.7),
    Layer("softmax_1024_1024", "Softmax", (1024, 1024), 1.1, 0.7),
    Layer("layer_norm_128_768", "LayerNormalization", (128, 768), 1.1, 0.7),
    Layer("layer_norm_1024_1024", "LayerNormalization", (1024, 1024), 1.1, 0.7),
    Layer("gelu_128_3072", "Gelu", (128, 3072), 1.1, 0.7),
)


def model_of(layer: Layer) -> onnx.ModelProto:
    """The layer as an ONNX model, its weights scaled so that results stay of the same size."""
    rng = np.random.default_rng(0)
    constants: dict[str, np.ndarray[Any, Any]] = {}
    nodes = []
    for number in range(layer.count):
        operands = [f"t{number}"]
        attributes: dict[str, Any] = {}
        if layer.kind == "Conv":
            channels = layer.shape[1]
            shape = (channels, channels // layer.groups, _KERNEL, _KERNEL)
            scale = np.float32(np.sqrt(prod(shape[1:])))
            constants[f"w{number}"] = rng.standard_normal(shape, dtype=np.float32) / scale
            attributes = {"group": layer.groups, "pads": [1] * 4, "kernel_shape": [_KERNEL] * 2}
            attributes |= {"strides": [1] * 2, "dilations": [1] * 2}
        elif layer.kind == "LayerNormalization":
            constants[f"w{number}"] = rng.standard_normal(layer.shape[1:], dtype=np.float32)
            constants[f"b{number}"] = rng.standard_normal(layer.shape[1:], dtype=np.float32)
            attributes = {"axis": -1, "epsilon": 1e-5}
        operands += [name for name in (f"w{number}", f"b{number}") if name in constants]
        nodes.append(helper.make_node(layer.kind, operands, [f"t{number + 1}"], **attributes))
    ends = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, layer.shape)
        for name in ("t0", f"t{layer.count}")
    )
    tensors = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, layer.name, *([end] for end in ends), tensors)
    gelu = layer.kind == "Gelu"
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", _GELU_OPSET if gelu else OPSET)],
        ir_version=_GELU_IR if gelu else IR_VERSION,
    )
    onnx.checker.check_model(model)
    return model


def prepared(
    layer: Layer, threads: int, trials: int, logs: Path, folder: Path
) -> tuple[Network, str, dict[str, float]]:
    """Tune and save: the workload, the module's file, the shares of the limit.

    Runs in a process of its own.
    """
    path = folder / f"{layer.name}.onnx"
    onnx.save(model_of(layer), path)
    network, target = autosched.from_onnx(path), host_target(threads)
    log = logs / f"{layer.name}.{threads}t.jsonl"
    log.parent.mkdir(parents=True, exist_ok=True)
    autosched.tune(network, target, trials=trials, log=log)
    module = autosched.compile(network, target, log=log)
    saved = folder / f"{layer.name}.{threads}t.asd"
    module.save(saved)
    told = module.explain(repeats=200)
    flops = sum(step.info.flops for step in module.program.steps)
    inputs = tuple((value.name, value.shape, value.dtype) for value in network.inputs)
    outputs = tuple(value.name for value in network.outputs)
    workload = Network(layer.name, str(path), inputs, outputs, flops)
    kernels_us = sum(row.microseconds for row in told.rows if row.bound)
    shares = {
        "of_limit": told.best_us / kernels_us,
        "of_limit_whole": told.best_us / told.total_us,
    }
    return workload, str(saved), shares


def measure(layer: Layer, threads: int, arguments: argparse.Namespace, folder: Path) -> Row:
    """The row of a layer."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        logs = Path(arguments.logs)
        job = pool.submit(prepared, layer, threads, arguments.trials, logs, folder)
        workload, module, shares = job.result()
    rivals: list[Contender] = [
        r for r in RIVALS if r.name in arguments.rivals and r.supports(workload)
    ]
    options = Options(arguments.rounds, arguments.seconds)
    result = compare(workload, [OursNetwork(module), *rivals], threads, options)
    row = comparison_row(layer.name, threads, workload.flops, result)
    row |= {"trials": arguments.trials, **shares, "flags": []}
    row["max_error"] = error_from_float64(workload, result)
    row["bars"] = layer.bars(row)
    return row


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the rows that were asked for."""
    names = [layer.name for layer in LAYERS]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="ROW")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--logs", default="out/layers", help="directory of the tuning logs")
    add_comparison(parser, (2,), 0.3, NETWORK_RIVALS)
    given = parser.parse_args(arguments)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for layer in (layer for layer in LAYERS if layer.name in given.only):
            for threads in given.threads:
                rows.append(measure(layer, threads, given, Path(folder)))
                print_row(rows[-1])
                whole = rows[-1]["of_limit_whole"]
                print(f"    {rows[-1]['of_limit']:.0%} of the limit, the whole call {whole:.0%}")
                print_bars(rows[-1])
                write_json(given.json, rows, means=geometric_means(rows, ("ratio",)))


if __name__ == "__main__":
    main()
