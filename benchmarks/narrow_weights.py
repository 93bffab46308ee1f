"""One token of a decoder with 4-bit weights, against onnxruntime and the bandwidth of the memory.

``python -m benchmarks.narrow_weights --budget 2m --json FILE``

Everyone runs the same file, once of products that leave the data as it is (level 0) and once of
such that may round it to bytes (level 4).  The bandwidth is measured beside them in every round.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import autosched
from autosched.runtime.probes.bandwidth import Stream
from benchmarks.command_line import add_comparison, add_tuning
from benchmarks.contender import Contender, Prepared
from benchmarks.decoder import Decoder
from benchmarks.harness import Options, compare
from benchmarks.network_cases import flags
from benchmarks.network_errors import error_from_onnxruntime
from benchmarks.networks import Tuned, tune
from benchmarks.ours import OursNetwork
from benchmarks.rivals import RIVALS
from benchmarks.rows import Row, comparison_row, print_bars, print_row, write_json
from benchmarks.workloads import Network, Workload
from codegen.host import host_target

MEMORY: Final = "memory"
LEVELS: Final = (0, 4)
RATIO_BAR: Final = 1.2
SHARE_BAR: Final = 0.8
_STREAMED: Final = 1 << 28  # bytes: no cache holds a share of them that shows
_TOLERANCE: Final = {0: 1e-5, 4: 0.05}  # of the largest output; bytes are coarse


@dataclass(frozen=True, slots=True)
class Memory:
    """Reads a block of memory with all threads, and computes nothing."""

    name: str = MEMORY

    def supports(self, workload: Workload) -> bool:
        return isinstance(workload, Network)

    def prepare(self, workload: Workload, threads: int) -> Prepared:
        """Pin one Python thread to each core; together they read the block once."""
        stream = Stream(host_target(threads), _STREAMED)
        cores = iter(sorted(os.sched_getaffinity(0))[:threads])
        pool = ThreadPoolExecutor(
            threads, initializer=lambda: os.sched_setaffinity(0, [next(cores)])
        )
        return Prepared(
            run=lambda: list(pool.map(stream.walk, range(threads))),
            outputs=dict,
            details=lambda: {"bytes": stream.size},
        )


def measure(threads: int, arguments: argparse.Namespace, folder: Path) -> list[Row]:
    """A row for each level; our kernels are the same for both, and tuned once."""
    decoders = {level: Decoder(level) for level in LEVELS}
    files = {level: decoder.export(folder) for level, decoder in decoders.items()}
    network = autosched.from_onnx(files[LEVELS[0]].path)
    tuned = tune("gpt2-token-4bit", network, threads, arguments, folder)
    del network
    return [
        _compared(decoder, files[level], tuned, threads, arguments)
        for level, decoder in decoders.items()
    ]


def _compared(
    decoder: Decoder, workload: Network, tuned: Tuned, threads: int, arguments: argparse.Namespace
) -> Row:
    rivals = [r for r in RIVALS if r.name in arguments.rivals and r.supports(workload)]
    contenders: list[Contender] = [OursNetwork(tuned.module), Memory(), *rivals]
    result = compare(workload, contenders, threads, Options(arguments.rounds, arguments.seconds))
    row = comparison_row(workload.name, threads, tuned.flops, result, apart=(MEMORY,))
    row["budget"], row["max_error"] = arguments.budget, error_from_onnxruntime(workload, result)
    row["sum_of_tasks"], row["flags"] = tuned.sum_of_tasks, flags(row)
    row["memory_gb_s"] = result.details[MEMORY]["bytes"] / result.milliseconds(MEMORY) / 1e6
    row["packed_gb_s"] = decoder.packed_bytes / row["ours_ms"] / 1e6
    row["memory_share"] = row["packed_gb_s"] / row["memory_gb_s"]
    tolerance = _TOLERANCE[decoder.accuracy_level]
    row["bars"] = {
        f"ratio_low >= {RATIO_BAR:g}": row.get("ratio_low", 0.0) >= RATIO_BAR,
        f"share of the bandwidth >= {SHARE_BAR:g}": row["memory_share"] >= SHARE_BAR,
        f"error <= {tolerance:g}": row["max_error"] <= tolerance,
    }
    return row


def main() -> None:
    """Run the decoder with each number of threads."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add_tuning(parser, "2m", "out/narrow")
    add_comparison(parser, (2,), 0.5, ("onnxruntime",))
    arguments = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for threads in arguments.threads:
            rows += measure(threads, arguments, Path(folder))
            write_json(arguments.json, rows)
    for row in rows:
        print_row(row)
        shares = row["packed_gb_s"], row["memory_gb_s"], row["memory_share"]
        print("    packed {:.1f} GB/s of {:.1f}: {:.0%}".format(*shares))
        print_bars(row)


if __name__ == "__main__":
    main()
