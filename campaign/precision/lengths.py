"""Long reductions against float64, with NumPy's own error as the yardstick."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import autosched as asd
from autosched.task import Task
from campaign.part import Mark
from campaign.verdict import Json, Verdict

Array = NDArray[Any]
_YARDSTICK: Final = 4.0
_UNIT: Final = 2.0**-24
_FACTORS: Final = tuple(0.5 + n / 16 for n in range(8))
_DISTRIBUTIONS: Final = ("signed", "positive", "offset", "constant")


class LengthsPart:
    """Sums, means, norms and softmax of 2^8 to 2^24 numbers."""

    def draw(self, seed: int) -> Json:
        """An operation, a length and a distribution."""
        rng = Random(seed)
        length = int(2 ** rng.uniform(8, rng.choice((16, 20, 24)))) + rng.randrange(-3, 4)
        return {
            "operation": rng.choice(sorted(_OPERATIONS)),
            "length": min(max(length, 2**8), 2**24),
            "distribution": rng.choice(_DISTRIBUTIONS),
            "threads": rng.choice((1, 1, 2)),
            "seed": rng.randrange(2**31),
        }

    def judge(self, case: Json, mark: Mark) -> Verdict:
        """Error of ours and of NumPy."""
        x = _numbers(case)
        expression, function = _OPERATIONS[case["operation"]]
        tensor = asd.placeholder(x.shape, name="x")
        stage = expression(tensor, x.size)
        task = Task(asd.ComputeDAG([stage]), asd.Target("cpu", threads=case["threads"]))
        mark("compile")
        module = task.module()
        mark("run")
        found = module.run({"x": x})[stage.name].astype(np.float64)
        exact = function(x.astype(np.float64))
        error = float(np.abs(found - exact).max())
        bound = _YARDSTICK * _numpy_error(x, exact, function)
        counts = {"elements": x.size}
        if error <= bound:
            return Verdict("right", "", counts)
        return Verdict("wrong", f"an error of {error:.3g}, {bound:.3g} is allowed", counts)

    def smaller(self, case: Json) -> Iterator[Json]:
        """Half the length, one thread."""
        if case["length"] > 2**9:
            yield {**case, "length": case["length"] // 2}
        if case["threads"] > 1:
            yield {**case, "threads": 1}


def _numbers(case: Json) -> Array:
    rng, size = np.random.default_rng(case["seed"]), case["length"]
    values: Any
    match case["distribution"]:
        case "signed":
            values = rng.standard_normal(size, np.float32)
        case "positive":
            values = rng.random(size, np.float32)
        case "offset":
            values = np.float32(100) + rng.random(size, np.float32)
        case _:
            values = np.full(size, rng.uniform(0.5, 2.0), np.float32)
    return np.asarray(values, np.float32)


def _numpy_error(x: Array, exact: Array, function: Callable[[Array], Array]) -> float:
    """The largest error of NumPy's float32 in some orders; no less than one rounding.

    Equal numbers round equally, so that one constant may be lucky: multiples of ``x`` count, too.
    """
    errors = [float(np.abs(exact).max()) * _UNIT, 1e-38]
    for shift in (0, x.size // 3, x.size // 2 + 1):
        rolled = np.roll(x, shift)
        result = np.asarray(function(rolled), np.float64)
        result = np.roll(result, -shift) if result.size == x.size else result
        errors.append(float(np.abs(result - exact).max()))
    if exact.size == 1:
        for factor in _FACTORS:
            scaled = x * np.float32(factor)
            off = function(scaled).astype(np.float64) - function(scaled.astype(np.float64))
            errors.append(abs(float(off)) / factor)
        # Sums of both signs may be exact by chance: their terms' rounding is the least to expect.
        errors.append(_UNIT * abs(float(function(np.abs(x.astype(np.float64))))) / x.size**0.5)
    return max(errors)


def _sum(x: Any, size: int) -> Any:
    k = asd.reduce_axis(size)
    return asd.compute(1, lambda i: asd.sum(x[k], axis=k), name="y")


def _mean(x: Any, size: int) -> Any:
    total = _sum(x, size)
    return asd.compute(1, lambda i: total[i] / float(size), name="mean")


def _norm(x: Any, size: int) -> Any:
    k = asd.reduce_axis(size)
    squares = asd.compute(1, lambda i: asd.sum(x[k] * x[k], axis=k), name="squares")
    return asd.compute(1, lambda i: asd.sqrt(squares[i]), name="norm")


def _softmax(x: Any, size: int) -> Any:
    k, r = asd.reduce_axis(size), asd.reduce_axis(size, "r")
    top = asd.compute(1, lambda i: asd.max(x[k], axis=k), name="top")
    e = asd.compute(size, lambda i: asd.exp(x[i] - top[0]), name="e")
    total = asd.compute(1, lambda i: asd.sum(e[r], axis=r), name="total")
    return asd.compute(size, lambda i: e[i] / total[0], name="softmax")


def _numpy_softmax(x: Array) -> Array:
    e = np.exp(x - x.max())
    return np.asarray(e / e.sum())


_OPERATIONS: Final[dict[str, tuple[Callable[[Any, int], Any], Callable[[Array], Array]]]] = {
    "sum": (_sum, lambda x: np.asarray(x.sum())),
    "mean": (_mean, lambda x: np.asarray(x.mean())),
    "norm": (_norm, lambda x: np.asarray(np.sqrt((x * x).sum()))),
    "softmax": (_softmax, _numpy_softmax),
}

PART: Final = LengthsPart()
