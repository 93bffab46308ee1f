"""Quantised networks, files as onnxruntime's quantiser writes them, next to the rivals.

``python -m benchmarks.quantised --json benchmarks/results/quantised.json``

Random weights and calibration on random data: of interest is the time.  Everyone runs the same
file; our float32 network, tuned before (``--float-logs``), is measured beside them.  About two
minutes a network; the files and the logs are kept in ``--logs``, and ``--resume`` keeps the rows
that the JSON file has.
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
from benchmarks.command_line import add_comparison, add_float_logs, add_tuning
from benchmarks.contender import Contender
from benchmarks.harness import OURS, Options, compare
from benchmarks.network_cases import flags
from benchmarks.network_errors import error_from_onnxruntime
from benchmarks.networks import Tuned, tune
from benchmarks.ours import OursNetwork
from benchmarks.rivals import RIVALS
from benchmarks.rows import Row, comparison_row, kept_rows, print_bars, print_row, write_json
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
# Those that bars are about; resnet-18 is there to look at something small.
WITH_BARS: Final = ("resnet-50", "mobilenet-v2", "bert-base")


class _Samples(CalibrationDataReader):  # type: ignore[misc]
    """Two runs' worth of random inputs."""

    def __init__(self, workload: Network) -> None:
        self._left: Iterator[dict[str, NDArray[Any]]] = iter([workload.arrays()] * 2)

    def get_next(self) -> dict[str, NDArray[Any]] | None:
        return next(self._left, None)


def quantised(network: ZooNetwork, case: QuantisedCase, folder: Path) -> Network:
    """The quantised file of a network, in ``folder``; one that is there is taken as it is."""
    inputs = tuple((value.name, value.shape, value.dtype) for value in network.inputs)
    outputs = tuple(value.name for value in network.outputs)
    path = folder / f"{network.name}.int8.onnx"
    workload = Network(network.name, str(path), inputs, outputs, 0.0)
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _quantise(network, case, workload)
    return workload


def _quantise(network: ZooNetwork, case: QuantisedCase, workload: Network) -> None:
    with tempfile.TemporaryDirectory(dir=Path(workload.path).parent) as folder:
        paths = [str(Path(folder) / f"{form}.onnx") for form in ("float", "folded", "int8")]
        Path(paths[0]).write_bytes(to_onnx(network.graph).SerializeToString())
        quant_pre_process(paths[0], paths[1], skip_symbolic_shape=True)
        quantize_static(
            paths[1],
            paths[2],
            _Samples(workload),
            quant_format=QuantFormat.QDQ,
            per_channel=case.per_channel,
            activation_type=QuantType.QInt8 if case.signed else QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )
        Path(paths[2]).replace(workload.path)  # whole, or not there


def measure(name: str, threads: int, arguments: argparse.Namespace, folder: Path) -> Row:
    """The row of a network: tuned within the budget, compared in interleaved rounds."""
    case = CASES[name]
    workload = quantised(zoo.build(name), case, Path(arguments.logs))
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
    row["budget"], row["max_error"] = arguments.budget, error_from_onnxruntime(workload, result)
    row["sum_of_tasks"] = tuned.sum_of_tasks
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
    parser.add_argument("--networks", nargs="+", choices=CASES, default=list(WITH_BARS))
    parser.add_argument(
        "--resume", action="store_true", help="keep rows of the JSON file that have this budget"
    )
    add_float_logs(parser)
    add_tuning(parser, "60s", "out/int8")
    add_comparison(parser, (2,), 0.5, ("openvino", "onnxruntime"))
    arguments = parser.parse_args()
    rows = kept_rows(arguments.json, arguments.budget) if arguments.resume else []
    kept = {(row["name"], row["threads"]) for row in rows}
    wanted = [(name, threads) for name in arguments.networks for threads in arguments.threads]
    with tempfile.TemporaryDirectory() as folder:
        for name, threads in wanted:
            if (name, threads) not in kept:
                rows.append(measure(name, threads, arguments, Path(folder)))
                print_row(rows[-1])
                print_bars(rows[-1])
                write_json(arguments.json, rows)


if __name__ == "__main__":
    main()
