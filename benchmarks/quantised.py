"""Quantised networks, files as onnxruntime's quantiser writes them, next to the rivals.

``python -m benchmarks.quantised --networks resnet-50 --budget 2m --json FILE``

Random weights and calibration on random data: of interest is the time.  Everyone runs the same
file; our float32 network, tuned before (``--float-logs``), is measured beside them.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quant_pre_process,
    quantize_static,
)

import autosched
from autosched import zoo
from autosched.graph.ir import Network as ZooNetwork
from autosched.onnx.export import to_onnx
from benchmarks.command_line import add_comparison, add_tuning
from benchmarks.contender import Contender
from benchmarks.harness import OURS, Options, compare
from benchmarks.network_cases import flags
from benchmarks.networks import Tuned, max_error, tune
from benchmarks.ours import OursNetwork
from benchmarks.rivals import RIVALS
from benchmarks.rows import Row, comparison_row, print_bars, print_row, write_json
from benchmarks.workloads import Network
from codegen.host import host_target

FLOAT: Final = "ours_float32"
RATIO_BAR: Final = 1.1


@dataclass(frozen=True, slots=True)
class QuantisedCase:
    """How a network of the zoo is quantised, and what has to be reached.

    Attributes:
        signed: activations are int8; else uint8.
        per_channel: weights have a scale for each output channel.
        float_bar: how many times as fast as our float32 network.
    """

    signed: bool
    per_channel: bool
    float_bar: float = 2.2


CASES: Final = {
    "resnet-18": QuantisedCase(False, False),
    "resnet-50": QuantisedCase(True, True),
    "mobilenet-v2": QuantisedCase(False, False, float_bar=1.5),
    "bert-base": QuantisedCase(True, False),
}


class _Samples(CalibrationDataReader):  # type: ignore[misc]
    """Two runs' worth of random inputs."""

    def __init__(self, workload: Network) -> None:
        self._left: Iterator[dict[str, NDArray[Any]]] = iter([workload.arrays()] * 2)

    def get_next(self) -> dict[str, NDArray[Any]] | None:
        return next(self._left, None)


def quantised(network: ZooNetwork, case: QuantisedCase, folder: Path) -> Network:
    """The quantised file of a network, in ``folder``."""
    paths = [str(folder / f"{network.name}.{form}.onnx") for form in ("float", "folded", "int8")]
    Path(paths[0]).write_bytes(to_onnx(network.graph).SerializeToString())
    quant_pre_process(paths[0], paths[1], skip_symbolic_shape=True)
    inputs = tuple((value.name, value.shape, value.dtype) for value in network.inputs)
    outputs = tuple(value.name for value in network.outputs)
    workload = Network(network.name, paths[2], inputs, outputs, 0.0)
    quantize_static(
        paths[1],
        paths[2],
        _Samples(workload),
        quant_format=QuantFormat.QDQ,
        per_channel=case.per_channel,
        activation_type=QuantType.QInt8 if case.signed else QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
    return workload


def measure(name: str, threads: int, arguments: argparse.Namespace, folder: Path) -> Row:
    """The row of a network: tuned within the budget, compared in interleaved rounds."""
    case = CASES[name]
    workload = quantised(zoo.build(name), case, folder)
    network = autosched.from_onnx(workload.path)
    tuned = tune(f"{name}.int8", network, threads, arguments, folder)
    plain = folder / f"{name}.float.asd"
    log = Path(arguments.float_logs) / f"{name}.{threads}t.jsonl"
    target = host_target(threads)
    autosched.compile(zoo.build(name), target=target, log=log if log.exists() else None).save(plain)
    return _compared(workload, tuned, plain, threads, arguments)


def _compared(
    workload: Network, tuned: Tuned, plain: Path, threads: int, arguments: argparse.Namespace
) -> Row:
    rivals = [r for r in RIVALS if r.name in arguments.rivals and r.supports(workload)]
    contenders: list[Contender] = [
        OursNetwork(tuned.module), OursNetwork(str(plain), name=FLOAT), *rivals
    ]  # fmt: skip
    result = compare(workload, contenders, threads, Options(arguments.rounds, arguments.seconds))
    row = comparison_row(workload.name, threads, tuned.flops, result, apart=(FLOAT,))
    row["budget"], row["max_error"] = arguments.budget, max_error(workload, result)
    row["sum_of_tasks_ms"] = tuned.sum_of_tasks_ms
    times = (np.median(result.rounds[who]) for who in (FLOAT, OURS))
    row["flags"] = flags(row)
    row["float_ratio"] = float(next(times) / next(times))
    float_bar = CASES[workload.name].float_bar
    row["bars"] = {
        f"ratio_low >= {RATIO_BAR:g}": row.get("ratio_low", 0.0) >= RATIO_BAR,
        f"times our float32 >= {float_bar:g}": row["float_ratio"] >= float_bar,
    }
    return row


def main() -> None:
    """Run the networks that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--networks", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument(
        "--float-logs", default="benchmarks/logs", help="directory of the float networks' logs"
    )
    add_tuning(parser, "2m", "out/int8")
    add_comparison(parser, (2,), 0.5, ("openvino", "onnxruntime"))
    arguments = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.networks:
            for threads in arguments.threads:
                rows.append(measure(name, threads, arguments, Path(folder)))
                print_row(rows[-1])
                print_bars(rows[-1])
                write_json(arguments.json, rows)


if __name__ == "__main__":
    main()
