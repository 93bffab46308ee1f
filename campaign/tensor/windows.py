"""Convolutions that other algorithms can stand in for, and what networks do with their results.

Their inputs are plain numbers: those algorithms add and subtract elements of a whole tile, so that
one infinity is seen in all its results.
"""

from __future__ import annotations

from math import prod
from random import Random
from typing import Any, Final

from campaign.tensor.bodies import Expression
from campaign.tensor.indices import whole_number
from campaign.tensor.targets import NAMES
from campaign.verdict import Json

_MAX_GRID: Final = 400_000
_CHANNELS: Final = (16, 17, 20, 24, 33)
_SIZES: Final = (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13)
_SPACINGS: Final = (1, 1, 2, 2, 2, 3, 4, 5, 9)
# Of dimensions whose taps are apart: short ones have no other algorithm.
_LONG: Final = (16, 17, 21, 32)
_TAILS: Final = ("nothing", "residual", "transposed", "repeated", "twice")
_ZERO: Final[Expression] = ["const", 0.0, "float32"]


def draw_window_program(seed: int, dilated: bool = False) -> Json:
    """A convolution of stride 1 or 2 in one to three dimensions, and at most one more stage.

    Args:
        seed: of all that is drawn.
        dilated: taps may meet elements that are up to 9 apart.
    """
    rng = Random(seed)
    rank, stride, batch = rng.choice((1, 2, 2, 2, 3)), rng.choice((1, 1, 1, 2)), rng.choice((1, 2))
    taps = [rng.choice((1, 2, 3, 3, 3, 4, 5, 7) if rank < 3 else (1, 2, 3)) for _ in range(rank)]
    channels, filters = rng.choice(_CHANNELS), rng.choice(_CHANNELS)
    spacings = [rng.choice(_SPACINGS) if dilated else 1 for _ in taps]
    room = _MAX_GRID // (batch * channels * filters * prod(taps))
    places = [1] * rank
    for dim in range(rank):
        drawn = (*_SIZES, *_LONG) if spacings[dim] > 1 else _SIZES
        fitting = [size for size in drawn if size * prod(places) <= room]
        places[dim] = rng.choice(fitting or [1])
    pads = [rng.choice((0, 0, 1, 1, 2, 5)) * d for d in spacings]
    # what a window reads beyond the last element: padding, too
    sizes = [
        max(1, (p - 1) * stride + d * (t - 1) + 1 - pad - rng.randrange(4))
        for p, t, d, pad in zip(places, taps, spacings, pads, strict=True)
    ]
    data = _input("A0", [batch, *sizes, channels], rng.choice(("unit", "positive")))
    weight = _input("A1", [*taps, channels, filters], "unit", constant=True)
    axes: list[list[Any]] = [["n", batch], *([f"i{d}", p] for d, p in enumerate(places))]
    axes.append(["o", filters])
    reduced = [*([f"t{d}", t] for d, t in enumerate(taps)), ["k", channels]]
    indices: list[Expression] = []
    conditions: list[Expression] = []
    for dim, (place, size) in enumerate(zip(places, sizes, strict=True)):
        moved = ["mul", ["axis", f"i{dim}"], whole_number(stride)]
        tap: Expression = ["axis", f"t{dim}"]
        if spacings[dim] > 1:
            tap = ["mul", tap, whole_number(spacings[dim])]
        index: Expression = ["add", moved, tap]
        if pads[dim]:
            index = ["sub", index, whole_number(pads[dim])]
            conditions.append(["ge", index, whole_number(0)])
        if (place - 1) * stride + spacings[dim] * (taps[dim] - 1) - pads[dim] >= size:
            conditions.append(["lt", index, whole_number(size)])
        indices.append(index)
    value: Expression = ["load", "A0", ["axis", "n"], *indices, ["axis", "k"]]
    for condition in conditions:
        value = ["select", condition, value, _ZERO]
    factor = ["load", "A1", *(["axis", name] for name, _ in reduced), ["axis", "o"]]
    window = _stage("S0", axes, ["mul", value, factor], {"kind": "sum", "axes": reduced})
    tail, more = _tail(rng, axes)
    return {
        "inputs": [data, weight, *more],
        "stages": [window, *([] if tail is None else [tail])],
        "outputs": ["S0" if tail is None else "S1"],
        "values": rng.randrange(2**31),
        "target": [rng.choice(NAMES), rng.choice((1, 1, 2, 3))],
        "rows": {
            "seed": rng.randrange(2**31),
            "sketches": [rng.randrange(48) for _ in range(3)],
            "variants": True,
        },
        "side": rng.choice(("end", "start")),
    }


def _tail(rng: Random, axes: list[list[Any]]) -> tuple[Json | None, list[Json]]:
    """The stage that reads the convolution, and its inputs."""
    names: list[Expression] = [["axis", name] for name, _ in axes]
    shape = [extent for _, extent in axes]
    match rng.choice(_TAILS):
        case "residual":
            body: Expression = ["max", ["add", ["load", "S0", *names], ["load", "A2", *names]],
                                _ZERO]  # fmt: skip
            return _stage("S1", axes, body), [_input("A2", shape, "unit")]
        case "transposed":
            turned = [axes[0], axes[-1], *axes[1:-1]]
            return _stage("S1", turned, ["max", ["load", "S0", *names], _ZERO]), []
        case "repeated":
            times = rng.choice((2, 3))
            longer = [axes[0], *([name, e * times] for name, e in axes[1:-1]), axes[-1]]
            inner = [["floordiv", name, whole_number(times)] for name in names[1:-1]]
            node: Expression = ["load", "S0", names[0], *inner, names[-1]]
            return _stage("S1", longer, ["max", node, _ZERO]), []
        case "twice":
            back = [
                ["sub", whole_number(extent - 1), name]
                for name, extent in zip(names[1:-1], shape[1:-1], strict=True)
            ]
            other: Expression = ["load", "S0", names[0], *back, names[-1]]
            return _stage("S1", axes, ["add", ["load", "S0", *names], other]), []
    return None, []


def _input(name: str, shape: list[int], kind: str, constant: bool = False) -> Json:
    entry = {"name": name, "shape": shape, "dtype": "float32", "constant": constant}
    return {**entry, "kind": kind, "high": 0}


def _stage(name: str, axes: list[list[Any]], body: Expression, reduce: Json | None = None) -> Json:
    return {"name": name, "axes": axes, "reduce": reduce, "bodies": [body], "store": None}
