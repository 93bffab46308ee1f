"""Networks of torchvision and transformers, with random weights, next to the rivals.

``python -m benchmarks.wild --all --budget 2m --json FILE``, after
``pip install -r benchmarks/wild_requirements.txt``.

Everyone but PyTorch runs the same ONNX file; PyTorch runs the module that it was written from.
"""

from __future__ import annotations

import argparse
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import torch

import autosched
from benchmarks import wild_models
from benchmarks.command_line import NETWORK_RIVALS, add_comparison, add_tuning
from benchmarks.network_cases import Case
from benchmarks.networks import Tuned, compared, tune
from benchmarks.rows import Row, geometric_means, print_bars, print_row, write_json
from benchmarks.workloads import Network

RATIO_BAR: Final = 1.05
OPSET: Final = 18


def prepared(
    name: str, threads: int, arguments: argparse.Namespace, folder: Path
) -> tuple[Network, Tuned]:
    """Export, tune within the budget and compile; runs in a process of its own."""
    model = wild_models.build(name)
    path = folder / f"{name}.onnx"
    program = torch.onnx.export(
        model.module, model.inputs, dynamo=True, verbose=False, opset_version=OPSET
    )
    assert program is not None
    program.save(path)
    network = autosched.from_onnx(path)
    tuned = tune(name, network, threads, arguments, folder)
    inputs = tuple((value.name, value.shape, value.dtype) for value in network.inputs)
    outputs = tuple(value.name for value in network.outputs)
    return Network(name, str(path), inputs, outputs, tuned.flops, in_torch=True), tuned


def measure(name: str, threads: int, arguments: argparse.Namespace, folder: Path) -> Row:
    """The row of a network."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        workload, tuned = pool.submit(prepared, name, threads, arguments, folder).result()
    return compared(Case(name, RATIO_BAR), workload, tuned, threads, arguments)


def main() -> None:
    """Run the networks that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--networks", nargs="+", choices=wild_models.NAMES)
    which.add_argument("--all", action="store_true")
    add_tuning(parser, "5m", "out/wild")
    add_comparison(parser, (2,), 1.0, NETWORK_RIVALS)
    arguments = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in wild_models.NAMES if arguments.all else arguments.networks:
            for threads in arguments.threads:
                rows.append(measure(name, threads, arguments, Path(folder)))
                print_row(rows[-1])
                print_bars(rows[-1])
                write_json(arguments.json, rows, means=geometric_means(rows, ("ratio",)))


if __name__ == "__main__":
    main()
