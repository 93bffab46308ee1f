"""A network before and after tuning, and in onnxruntime where that is installed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.runtime.backend import runtime_of
from autosched.runtime.benchmark import Benchmark
from autosched.runtime.cores import available_cores
from autosched.runtime.errors import InputError
from autosched.runtime.table import render_table
from autosched.system.limits import check_whole
from autosched.system.numbers import milliseconds
from autosched.system.stability import Watch
from sketch.oracle.expected import relative_error

if TYPE_CHECKING:
    from autosched.graph.ir import Network
    from autosched.runtime.module import Module

# Worker threads of the one before spin for a while after their last region.
_SETTLE_SECONDS: Final = 0.2
_WARMUP_SECONDS: Final = 0.1
# Each module is timed so many times, for a part of its runs.
_TURNS: Final = 5
_RUNS_BEFORE_A_TURN: Final = 2
RIVAL: Final = "onnxruntime"
TUNED: Final = "tuned"
# Times that differ by more need a word on it: the larger over the smaller.
_ALIKE: Final = 1.2
_ON_CPU: Final = f"{RIVAL} runs on this machine's CPUs"
_MISMATCHED: Final = f"infinities or NaN in the outputs are in other places than in {RIVAL}'s"
_FATAL: Final = 4  # onnxruntime's number: whatever fails is told in our own words


Told = Callable[[str], None]
"""Is told what a comparison does next, for people who wait for it."""


def untold(step: str) -> None:
    """Tells nobody."""


@dataclass(frozen=True, slots=True)
class OnnxFile:
    """A file that a network was read from.

    Attributes:
        path: of the file.
        values: what inputs were given, by name; the network does not have these inputs.
        shapes: of inputs that it was read with, by name.
    """

    path: Path
    values: Mapping[str, Any] = field(default_factory=dict)
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Latencies of a network or a task: "untuned", "tuned", "onnxruntime" where it is installed.

    Attributes:
        error: largest relative difference of our outputs to onnxruntime's,
            ``max|ours - theirs| / max|theirs|`` over finite elements; infinite where NaN or
            infinities are in other places; None without onnxruntime.
        note: why onnxruntime, though installed, is not among the rows, or that it runs on another
            machine than ours; else empty.
        on_host: operators of ours that run on the host.
    """

    rows: tuple[Benchmark, ...]
    error: float | None
    note: str = ""
    on_host: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Rows, error and note as JSON values; JSON has no infinity, so the note tells of it."""
        rows = [row.to_json() for row in self.rows]
        error = None if self._mismatched else self.error
        notes = [_MISMATCHED] * self._mismatched + [self.note] * bool(self.note)
        return {"rows": rows, "relative_error": error, "note": "; ".join(notes)}

    def __str__(self) -> str:
        first = self.rows[0].median
        body = [
            (
                row.name,
                *map(milliseconds, (row.median, row.min, row.std)),
                f"{first / row.median:.2f}x",
                str(row.stability),
            )
            for row in self.rows
        ]
        header = ("", "median ms", "min ms", "std ms", f"vs {self.rows[0].name}", "stability")
        lines = [render_table(header, body, left=(0, 5))]
        if self._mismatched:
            lines.append(_MISMATCHED)
        elif self.error is not None:
            lines.append(f"largest relative difference to {RIVAL}: {self.error:.1e}")
        if self.note:
            lines.append(self.note)
        return "\n".join(lines)

    def unlike_total(self, total_s: float) -> str:
        """Why the tuned time is not the sum of the kernels' times; "" where it nearly is.

        ``total_s``: seconds that the summary of tuning estimated; infinite where it is not known,
        0 where no kernel is tuned.
        """
        tuned = next(row.median for row in self.rows if row.name == TUNED)
        if not 0 < total_s < math.inf or max(tuned, total_s) <= _ALIKE * min(tuned, total_s):
            return ""
        host = f" without {', '.join(self.on_host)} on the host" if self.on_host else ""
        return (
            f"tuned is {milliseconds(tuned)} ms, the estimated total {milliseconds(total_s)} ms: "
            f"the total is of kernels that were timed alone while tuning{host}, tuned is the whole "
            "network, now; other load on the machine, or data that leave the caches, make the "
            "difference"
        )

    @property
    def _mismatched(self) -> bool:
        return self.error is not None and not math.isfinite(self.error)


def compare(
    network: Network,
    untuned: Module,
    tuned: Module,
    repeats: int = 50,
    source: OnnxFile | None = None,
    told: Told = untold,
) -> Comparison:
    """Time both modules in turns, then onnxruntime with as many threads.

    Next to a GPU onnxruntime runs on this machine's CPUs; next to an emulated one, whose times are
    estimates, only its results are compared.

    Args:
        network: what both compute.
        untuned: compiled without a log.
        tuned: compiled with one.
        repeats: runs of each.
        source: the ONNX file that the network was read from, for onnxruntime to run; None, or
            one with inputs that the network does not have: the network is exported.
        told: what is done next.
    """
    inputs = tuned.random_inputs()
    rows = before_and_after(untuned, tuned, inputs, repeats, told)
    on_host = tuple(sorted({step.info.op for step in tuned.program.host_steps}))
    if find_spec("onnxruntime") is None or find_spec("onnx") is None:
        return Comparison(rows, None, on_host=on_host)
    told(f"timing {RIVAL}")
    ours = tuned.run(inputs)
    time.sleep(_SETTLE_SECONDS)
    target = tuned.target
    here, emulated = runtime_of(target).in_process, target.card.emulated
    threads = target.threads if here else len(available_cores())
    try:
        theirs, rival = _run_rival(network, source, inputs, threads, 1 if emulated else repeats)
        error = max(_difference(ours[name], expected) for name, expected in theirs.items())
    except Exception as failure:  # a rival that cannot run this model must not end our own run
        reason = str(failure).strip().split("\n", maxsplit=1)[0]
        return Comparison(rows, None, f"not compared with {RIVAL}: {reason}", on_host)
    if emulated:
        return Comparison(rows, error, on_host=on_host)
    return Comparison((*rows, rival), error, "" if here else _ON_CPU, on_host)


def before_and_after(
    untuned: Module,
    tuned: Module,
    inputs: dict[str, NDArray[Any]],
    repeats: int = 50,
    told: Told = untold,
) -> tuple[Benchmark, Benchmark]:
    """Times of both modules on the same inputs, in turns: what slows the machine for a while slows
    both.

    Args:
        untuned: compiled without a log.
        tuned: compiled with one.
        inputs: arrays by name.
        repeats: runs of each.
        told: what is done next.

    Raises:
        InputError: fewer runs than one.
    """
    check_whole("repeats", repeats, 1, InputError)
    told("timing what is untuned and what is tuned, in turns")
    before: list[Benchmark] = []
    after: list[Benchmark] = []
    for share in np.array_split(np.arange(repeats), min(_TURNS, repeats)):
        for module, turns in ((untuned, before), (tuned, after)):
            time.sleep(_SETTLE_SECONDS)
            turns.append(module.benchmark(inputs, len(share), _RUNS_BEFORE_A_TURN))
    return _joined("untuned", before), _joined(TUNED, after)


def _joined(name: str, turns: Sequence[Benchmark]) -> Benchmark:
    """All turns as one, under the conditions of the one that others disturbed most."""
    seconds = tuple(second for turn in turns for second in turn.seconds)
    disturbances = [(c.stolen or 0.0) + (c.others or 0.0) for c in (t.conditions for t in turns)]
    worst = turns[int(np.argmax(disturbances))]
    return replace(worst, name=name, seconds=seconds)


def _run_rival(
    network: Network,
    source: OnnxFile | None,
    inputs: dict[str, NDArray[Any]],
    threads: int,
    repeats: int,
) -> tuple[dict[str, NDArray[Any]], Benchmark]:
    """Outputs of onnxruntime, and its times."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = _FATAL
    session = onnxruntime.InferenceSession(
        _rival_model(network, source), options, providers=["CPUExecutionProvider"]
    )
    names = [value.name for value in network.outputs]
    if source is not None:
        inputs = inputs | _given(session.get_inputs(), source, inputs)
    seconds = []
    with Watch() as watch:
        deadline = time.perf_counter() + _WARMUP_SECONDS
        outputs = session.run(names, inputs)
        while time.perf_counter() < deadline:
            session.run(names, inputs)
        for _ in range(repeats):
            start = time.perf_counter()
            session.run(names, inputs)
            seconds.append(time.perf_counter() - start)
    found = dict(zip(names, outputs, strict=True))
    return found, Benchmark(RIVAL, tuple(seconds), threads, watch.conditions)


def _given(
    declared: Sequence[Any], source: OnnxFile, inputs: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Values of inputs, of the shapes and types that they have in the file.

    Args:
        declared: the inputs of the file, as onnxruntime describes them.
        source: says the values of some; one number stands for all elements.
        inputs: of the network; as other values and shapes they say how large extents are that only
            have names.
    """
    from autosched.onnx.type_names import numpy_name

    values = source.values
    known = {name: np.shape(array) for name, array in (*inputs.items(), *values.items())}
    shapes = {name: shape for name, shape in known.items() if shape} | dict(source.shapes)
    extents: dict[Any, int] = {}
    for value in declared:
        extents.update(zip(value.shape, shapes.get(value.name, ()), strict=False))
    extents.pop(None, None)  # no name: each is another extent
    found = {}
    for value in declared:
        if value.name in values:
            array = np.asarray(values[value.name], numpy_name(value.type))
            own = [extents.get(extent, extent) for extent in value.shape]
            shape = shapes.get(value.name, own)
            static = all(isinstance(extent, int) for extent in shape)
            found[value.name] = np.broadcast_to(array, tuple(shape)) if static else array
    return found


def _rival_model(network: Network, source: OnnxFile | None) -> str | bytes:
    from autosched.onnx.export import to_onnx

    if source is not None:
        return str(source.path)
    return bytes(to_onnx(network.graph).SerializeToString())


def _difference(ours: NDArray[Any], theirs: NDArray[Any]) -> float:
    """See ``Comparison.error``; of integers, too, which may be off by a step of quantisation."""
    return relative_error(ours.astype(np.float64), theirs.astype(np.float64))
