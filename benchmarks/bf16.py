"""Networks in bfloat16 next to OpenVINO in bfloat16, and to ourselves in float32.

``python -m benchmarks.bf16 --networks resnet-50 --budget 2m --json FILE``
``python -m benchmarks.bf16 --networks bert-base --precision int8-dynamic --json FILE``: another
precision, which has no bars.

Random weights: of interest is the time.  Everyone reads the same float32 file.  The product is
a network of one layer, whose share of the peak is that of float32.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

import autosched
from autosched import zoo
from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Network as ZooNetwork
from autosched.graph.ir import Value
from autosched.graph.ops.matmul import MatMul
from autosched.graph.precision import PRECISIONS
from benchmarks.command_line import add_comparison, add_float_logs, add_tuning
from benchmarks.contender import Contender
from benchmarks.harness import OURS, Options, compare, relative_error
from benchmarks.network_cases import flags
from benchmarks.networks import Tuned, exported, tune
from benchmarks.ours import OursNetwork
from benchmarks.peak import Peak
from benchmarks.rivals import RIVALS
from benchmarks.rows import Row, comparison_row, print_bars, print_row, write_json
from codegen.host import host_target

FLOAT: Final = "ours_float32"
RIVAL: Final = "openvino_bf16"
PRODUCT: Final = "product-1024"


@dataclass(frozen=True, slots=True)
class Bars:
    """What has to be reached: times OpenVINO in bfloat16, and a share of the float32 peak."""

    ratio: float = 0.0
    peak_share: float = 0.0

    def of(self, row: Row) -> dict[str, bool]:
        """Each bar, and whether it holds."""
        found = {
            f"times {RIVAL} >= {self.ratio:g}": row.get("ratio_low", 0.0) >= self.ratio,
            f"of the float32 peak >= {self.peak_share:g}": (
                row.get("peak_share", 0.0) >= self.peak_share
            ),
        }
        return {text: holds for text, holds in found.items() if not text.endswith(">= 0")}


CASES: Final = {
    PRODUCT: Bars(peak_share=1.7),
    "resnet-18": Bars(),
    "resnet-50": Bars(ratio=1.2),
    "mobilenet-v2": Bars(),
    "bert-base": Bars(),
}


def network_of(name: str) -> ZooNetwork:
    """A network of the zoo, or the product ``[1024, 1024] @ [1024, 1024]``."""
    if name != PRODUCT:
        return zoo.build(name)
    weight = np.random.default_rng(0).standard_normal((1024, 1024), dtype=np.float32)
    builder = GraphBuilder(PRODUCT)
    data = builder.input(Value("data", weight.shape))
    product = builder.add(MatMul(), (data, builder.constant("weight", weight)))
    return ZooNetwork(PRODUCT, builder.finish({"out": product}))


def measure(name: str, threads: int, arguments: argparse.Namespace, folder: Path) -> Row:
    """The row of a network: tuned within the budget, compared in interleaved rounds."""
    network = network_of(name)
    reduction = autosched.reduce_precision(network, precision=arguments.precision)
    print(reduction, flush=True)
    tuned = tune(f"{name}.{arguments.precision}", reduction.network, threads, arguments, folder)
    plain = folder / f"{name}.float.asd"
    log = Path(arguments.float_logs) / f"{name}.{threads}t.jsonl"
    target = host_target(threads)
    autosched.compile(network, target=target, log=log if log.exists() else None).save(plain)
    row = _compared(name, tuned, plain, threads, arguments, folder)
    row["reduction"] = str(reduction)
    return row


def _compared(
    name: str, tuned: Tuned, plain: Path, threads: int, arguments: argparse.Namespace, folder: Path
) -> Row:
    workload = exported(network_of(name), tuned.flops, folder, "NCHW")
    contenders: list[Contender] = [
        OursNetwork(tuned.module), OursNetwork(str(plain), name=FLOAT), Peak(),
        *(rival for rival in RIVALS if rival.name in arguments.rivals),
    ]  # fmt: skip
    result = compare(workload, contenders, threads, Options(arguments.rounds, arguments.seconds))
    row = comparison_row(name, threads, tuned.flops, result, apart=(FLOAT,))
    ours, exact = result.outputs[OURS], result.outputs[FLOAT]
    row["budget"] = arguments.budget
    row["max_error"] = max(relative_error(ours[n], exact[n]) for n in workload.outputs)
    row["sum_of_tasks"], row["flags"] = tuned.sum_of_tasks, flags(row)
    times = (np.median(result.rounds[who]) for who in (FLOAT, OURS))
    row["float_ratio"] = float(next(times) / next(times))
    row["bars"] = CASES[name].of(row) if arguments.precision == "bf16" else {}
    return row


def main() -> None:
    """Run the networks that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--networks", nargs="+", choices=CASES, default=list(CASES))
    add_float_logs(parser)
    parser.add_argument("--precision", choices=PRECISIONS[1:], default="bf16")
    add_tuning(parser, "2m", "out/bf16")
    add_comparison(parser, (2,), 0.5, (RIVAL,))
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
