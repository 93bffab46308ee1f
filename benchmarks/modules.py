"""Small modules of every kind, compiled without any tuning, next to PyTorch and onnxruntime.

``python -m benchmarks.modules --json FILE``; ``--only NAME ...`` for some of them, ``--dtype`` and
``--channels-last`` for what their inputs are.

Everyone keeps its process for all modules.  A row has the ratio of the fastest rival's time to
ours, the seconds of compiling, and the error: the largest difference from PyTorch's result in the
same dtype, relative to its largest element.  A rival that cannot run a module is left out of its
row.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import os
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.command_line import add_keep
from benchmarks.contender import Contender, Prepared
from benchmarks.harness import LEAST_ROUNDS, OURS, Comparison, Options, compare_ready
from benchmarks.placement import Exchange, Placement
from benchmarks.rivals import RIVALS
from benchmarks.rows import SLOW, Row, comparison_row, geometric_means, with_earlier, write_json
from benchmarks.small_modules import cases, kinds
from benchmarks.worker import ContenderError, Worker
from benchmarks.workloads import SmallModule, Workload

EAGER: Final = "torch_eager"
DTYPES: Final = ("float32", "float64", "float16")
TOLERANCES: Final = {"float32": 1e-4, "float64": 1e-9, "float16": 2e-2}


@dataclass(frozen=True, slots=True)
class OursModule:
    """The module through PyTorch's importer, compiled without a log."""

    name: str = OURS

    def supports(self, workload: Workload) -> bool:
        return isinstance(workload, SmallModule)

    def prepare(self, workload: Workload, threads: int) -> Prepared:
        """Import, compile and bind inputs and outputs, as is done for onnxruntime."""
        import autosched

        assert isinstance(workload, SmallModule)
        os.environ.pop("GOMP_CPU_AFFINITY", None)  # the module pins its threads itself
        torch_module, tensors = workload.built()
        network = autosched.from_torch(torch_module, tensors)
        module = autosched.compile(network, autosched.Target("cpu", threads=threads))
        module.pin_threads()
        names = [value.name for value in network.inputs]
        arrays = {
            name: np.asarray(tensor.numpy(), order="C")
            for name, tensor in zip(names, tensors, strict=True)
        }
        run, program = module.bind(arrays), module.program
        return Prepared(
            run,
            lambda: dict(zip(workload.outputs, run.outputs.values(), strict=True)),
            f"{len(program.steps)} steps, {len(program.host_steps)} on the host",
        )


@dataclass(slots=True)
class Staff:
    """A process for each contender, which is started again after it failed.

    Attributes:
        threads: of each.
        workers: those that run, by the contender's name.
        placement: says when turns are to be repeated.
    """

    threads: int
    workers: dict[str, Worker] = field(default_factory=dict)
    placement: Placement = field(default_factory=lambda: Placement(None))

    def ready(self, contender: Contender, workload: SmallModule) -> Worker:
        """The contender's worker, with the workload prepared.

        Raises:
            ContenderError: it cannot run this one.
        """
        worker = self.workers.pop(contender.name, None)
        if worker is None:
            worker = Worker.start(contender, workload, self.threads)
        else:
            try:
                worker.prepare(workload)
            except ContenderError:
                worker.close()
                raise
        self.workers[contender.name] = worker
        return worker

    def compare(
        self, contenders: Sequence[Contender], workload: SmallModule, options: Options
    ) -> tuple[Comparison, dict[str, str]]:
        """Times of those who can run the workload, and why others cannot.

        Raises:
            ContenderError: ours or PyTorch cannot, or one failed later than in its first run.
        """
        if self.threads > 1 and self.placement.probe is None:
            self.placement.probe = Worker.start(Exchange(), workload, self.threads)
        ready, refused = [], {}
        for contender in contenders:
            try:
                ready.append(self.ready(contender, workload))
            except ContenderError as error:
                if contender.name in (OURS, EAGER):
                    raise
                refused[contender.name] = str(error).strip().splitlines()[-1]
        try:
            return compare_ready(ready, self.placement, options), refused
        except ContenderError:  # one of them has ended
            self.close()
            raise

    def close(self) -> None:
        """End all processes; they start again when they are needed."""
        probe, self.placement.probe = self.placement.probe, None
        for worker in (*self.workers.values(), *([] if probe is None else [probe])):
            worker.close()
        self.workers.clear()


def exported(name: str, dtype: str, channels_last: bool, folder: Path) -> SmallModule:
    """The workload, with an ONNX file where PyTorch can write one."""
    path = folder / f"{name}.onnx"
    workload = SmallModule(name, "", dtype, channels_last)
    module, inputs = SmallModule(name, "", dtype, channels_last=False).built()
    given = [f"x{place}" for place in range(len(inputs))]
    quiet = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
    try:
        with quiet[0], quiet[1], warnings.catch_warnings(action="ignore"):
            program = torch.onnx.export(
                module,
                inputs,
                dynamo=True,
                verbose=False,
                input_names=given,
                output_names=list(workload.outputs),
            )
    except Exception:  # of any kind: PyTorch has no form of this function in ONNX
        return workload
    assert program is not None
    program.save(path)
    return SmallModule(name, str(path), dtype, channels_last)


def error(ours: NDArray[Any], exact: NDArray[Any]) -> float:
    """The largest difference, relative to the largest finite element; infinite where one is not
    finite and the other is.
    """
    if ours.shape != exact.shape:
        return float("inf")
    first, second = ours.astype(np.float64), exact.astype(np.float64)
    finite = np.isfinite(second)
    if not np.array_equal(finite, np.isfinite(first)):
        return float("inf")
    largest = np.abs(second[finite]).max(initial=0.0)
    difference = np.abs(first[finite] - second[finite]).max(initial=0.0)
    return float(difference / max(largest, 1e-30))


def measure(staff: Staff, workload: SmallModule, arguments: argparse.Namespace) -> Row:
    """The row of a module."""
    names = [EAGER, *arguments.rivals]
    rivals = [
        r for r in RIVALS if r.name in names and (workload.path or r.name.startswith("torch"))
    ]
    options = Options(arguments.rounds, arguments.seconds, arguments.pause)
    result, refused = staff.compare([OursModule(), *rivals], workload, options)
    row = comparison_row(workload.name, staff.threads, workload.flops, result)
    row |= {"dtype": workload.dtype, "channels_last": workload.channels_last, "refused": refused}
    row["kind"] = kinds()[workload.name]
    row["compile_s"] = result.prepare_s[OURS]
    row["max_error"] = error(result.outputs[OURS]["Y"], result.outputs[EAGER]["Y"])
    del row["rounds_ms"]  # of hundreds of modules: the medians do
    return row


def _print(row: Row) -> None:
    times = [f"{who} {ms * 1e3:.1f}" for who, ms in row["rivals_ms"].items()]
    wrong = " WRONG" if row["max_error"] > TOLERANCES[row["dtype"]] else ""
    slow = " SLOW" if row["ratio"] < SLOW else ""
    print(
        f"{row['name']:28s} ours {row['ours_ms'] * 1e3:9.1f} us | {' | '.join(times)}"
        f" | ratio {row['ratio']:.2f} | error {row['max_error']:.1e} | {row['notes'][OURS]}"
        f", {row['compile_s']:.1f} s{wrong}{slow}",
        flush=True,
    )


def _summary(rows: Sequence[Row]) -> Row:
    ratios = [row["ratio"] for row in rows]
    return geometric_means(rows, ("ratio",)) | {
        "at_least_as_fast": sum(ratio >= 1 for ratio in ratios),
        "slower_than_0.9": sum(ratio < SLOW for ratio in ratios),
        "wrong": sum(row["max_error"] > TOLERANCES[row["dtype"]] for row in rows),
    }


def main() -> None:
    """Run the modules that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    names = list(cases())
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--dtype", choices=DTYPES, default=DTYPES[0], help="of real numbers")
    parser.add_argument("--channels-last", action="store_true", help="images are (PyTorch)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=LEAST_ROUNDS)
    parser.add_argument("--seconds", type=float, default=0.03, help="per contender and round")
    parser.add_argument("--pause", type=float, default=0.05, help="seconds between turns")
    parser.add_argument("--rivals", nargs="*", default=["onnxruntime"], help="next to torch_eager")
    add_keep(parser)
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    rows: list[Row] = []
    failed: Row = {}
    staff = Staff(arguments.threads)
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(staff):
        for name in arguments.only:
            workload = exported(name, arguments.dtype, arguments.channels_last, Path(folder))
            try:
                rows.append(measure(staff, workload, arguments))
            except ContenderError as problem:
                failed[name] = str(problem).strip().splitlines()[-1]
                print(f"{name:28s} FAILED {failed[name]}", flush=True)
                continue
            _print(rows[-1])
            kept = with_earlier(arguments.json, rows) if arguments.keep else rows
            write_json(arguments.json, kept, summary=_summary(kept), failed=failed)
    print(_summary(rows) if rows else "nothing ran")


if __name__ == "__main__":
    main()
