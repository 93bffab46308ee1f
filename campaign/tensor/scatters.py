"""Reductions whose terms go where data say, and what stands before and after them.

    S[a, d] = sum over t of select(place[t] == a, x[t, d], 0)

Places may be data, or of a stage before; of other axes, beyond the ends, counted from the end, in
narrow types, masked; two axes may be solved, or one twice.
"""

from __future__ import annotations

from math import prod
from random import Random
from typing import Any, Final

import numpy as np

from campaign.tensor.bodies import Expression, converted, draw_body
from campaign.tensor.indices import whole_number
from campaign.tensor.numbers import FLOATS, arithmetic
from campaign.tensor.targets import NAMES
from campaign.verdict import Json

_MAX_GRID: Final = 150_000
_EXTENTS: Final = (1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 19, 31, 33, 48, 65, 129, 300)
_TERMS: Final = (1, 2, 3, 5, 8, 17, 30, 64, 100, 257, 600)
_DTYPES: Final = (
    *["float32"] * 5, "float64", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64",
)  # fmt: skip
_PLACES: Final = ("int32", "int32", "int64", "int64", "int8", "int16", "uint8")
_KINDS: Final = ("sum", "sum", "sum", "sum", "prod", "max", "min")
_SOURCES: Final = ("data", "data", "data", "shifted", "from the end", "stage", "of floats")
_AFTER: Final = ("nothing", "nothing", "mapped", "gathered", "again", "both")

_Axes = list[list[Any]]


def draw_scatter_program(seed: int) -> Json:
    """One scattering reduction or two, with up to three dimensions and one or two term axes."""
    return _Drawing(Random(seed)).program()


class _Drawing:
    """A program as it grows."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._inputs: list[Json] = []
        self._stages: list[Json] = []

    def program(self) -> Json:
        rng = self._rng
        name, axes, dtype = self._scatter(None)
        return {
            "inputs": self._inputs,
            "stages": self._stages,
            "outputs": self._after(rng.choice(_AFTER), name, axes, dtype),
            "values": rng.randrange(2**31),
            "target": [rng.choice(NAMES), rng.choice((1, 1, 2, 3, 7))],
            "rows": {
                "seed": rng.randrange(2**31),
                "sketches": [rng.randrange(48) for _ in range(3)],
            },
            "side": rng.choice(("end", "end", "start")),
        }

    def _scatter(self, source: tuple[str, _Axes, str] | None) -> tuple[str, _Axes, str]:
        """(name, axes, dtype) of a reduction whose terms are elements of a stage, or of inputs."""
        rng = self._rng
        dtype = rng.choice(_DTYPES) if source is None else source[2]
        terms = [] if source is None else [["t" + name, n] for name, n in source[1]][:2]
        room = _MAX_GRID // prod(extent for _, extent in terms)
        for letter in "tk"[: 0 if terms else rng.choice((1, 1, 1, 2))]:
            terms.append(
                [letter, rng.choice([n for n in _TERMS if n <= max(1, room // 40)] or [1])]
            )
            room //= terms[-1][1]
        axes: _Axes = []
        for letter in "adb"[: rng.choice((1, 2, 2, 2, 3))]:
            axes.append([letter, rng.choice([n for n in _EXTENTS if n <= room] or [1])])
            room //= axes[-1][1]
        solved = rng.sample(axes, min(len(axes), rng.choice((1, 1, 1, 1, 2))))
        rng.shuffle(axes)
        kind, wide = rng.choice(_KINDS), arithmetic(dtype)
        term = self._term(dtype, terms, axes, solved, source)
        conditions = [self._meets(axis, terms, axes, solved) for axis in solved]
        if rng.random() < 0.1:
            conditions.append(self._meets(solved[0], terms, axes, solved))
        if rng.random() < 0.25:
            mask = self._input([terms[0]], "int8", "small")
            conditions.append([rng.choice(("ne", "lt", "ge")), mask, ["const", 2, "int8"]])
        rng.shuffle(conditions)
        nothing: Expression = ["const", _identity(kind, wide), wide]
        body = _under(rng, conditions, term, nothing)
        rng.shuffle(terms)
        return self._stage(axes, body, {"kind": kind, "axes": terms}), axes, wide

    def _term(
        self,
        dtype: str,
        terms: _Axes,
        axes: _Axes,
        solved: _Axes,
        source: tuple[str, _Axes, str] | None,
    ) -> Expression:
        """What goes to the element that a term is for."""
        rng = self._rng
        kept = [axis for axis in axes if axis not in solved]

        def leaf() -> Expression:
            if rng.random() < 0.15:
                return self._input(rng.sample(solved, 1), dtype, "small")
            some = [axis for axis in kept if rng.random() < 0.8]
            return self._input([*rng.sample(terms, rng.randrange(len(terms)) + 1), *some], dtype)

        if source is not None:
            name, own, _ = source
            last = (whole_number(extent - 1) for _, extent in own[len(terms) :])
            node: Expression = ["load", name, *(["axis", axis] for axis, _ in terms), *last]
        elif rng.random() < 0.1:
            node = ["const", 1, dtype]
        else:
            node = draw_body(rng, dtype, leaf, rng.choice((0, 0, 1, 2)))
        return converted(rng, node, dtype, arithmetic(dtype))

    def _meets(self, axis: list[Any], terms: _Axes, axes: _Axes, solved: _Axes) -> Expression:
        """Whether a term is for an element, as far as one axis is concerned."""
        rng, (name, extent) = self._rng, axis
        dtype = rng.choice([d for d in _PLACES if np.iinfo(d).max >= extent])
        moved = rng.sample(terms, rng.randrange(len(terms)) + 1)
        moved += [other for other in axes if other not in solved and rng.random() < 0.25]
        place = self._place(rng.choice(_SOURCES), moved, dtype, extent)
        sides = [place, ["cast", dtype, ["axis", name]]]
        if dtype == "int64" or rng.random() < 0.5:
            sides = [["cast", "int64", place], ["axis", name]]
        rng.shuffle(sides)
        return ["eq", *sides]

    def _place(self, kind: str, moved: _Axes, dtype: str, extent: int) -> Expression:
        match kind:
            case "of floats":
                data = ["mul", self._input(moved, "float32"), ["const", extent * 0.7, "float32"]]
                return self._own(moved, ["cast", dtype, data])
            case "stage":
                data = self._input(moved, dtype, "index", extent)
                return self._own(moved, ["max", data, ["const", 0, dtype]])
            case "shifted":
                data = self._input(moved, dtype, "index", extent)
                return [self._rng.choice(("add", "sub")), data, ["const", 1, dtype]]
            case "from the end" if np.iinfo(dtype).min < 0:
                data = self._input(moved, dtype, "index", extent)
                beyond = ["add", data, ["const", extent, dtype]]
                return ["select", ["lt", data, ["const", 0, dtype]], beyond, data]
        return self._input(moved, dtype, self._rng.choice(("index", "index", "edges")), extent)

    def _after(self, kind: str, name: str, axes: _Axes, dtype: str) -> list[str]:
        """The outputs."""
        rng = self._rng
        node = ["load", name, *(["axis", axis] for axis, _ in axes)]
        match kind:
            case "mapped" | "both":
                other = self._input(axes, dtype)
                last = self._stage(axes, [rng.choice(("add", "max", "mul")), node, other])
                return [last, name] if kind == "both" else [last]
            case "gathered":
                places = [["e", 37], *axes[1:]]
                data = self._input(places[:1], "int32", "index", axes[0][1])
                low = ["max", data, ["const", 0, "int32"]]
                node[2] = ["min", low, ["const", axes[0][1] - 1, "int32"]]
                return [self._stage(places, node)]
            case "again":
                return [self._scatter((name, axes, dtype))[0]]
        return [name]

    def _own(self, axes: _Axes, body: Expression) -> Expression:
        """A read of a stage of its own."""
        return ["load", self._stage(axes, body), *(["axis", name] for name, _ in axes)]

    def _input(self, axes: _Axes, dtype: str, kind: str = "", high: int = 0) -> Expression:
        """A read of a new input at these axes."""
        name = f"A{len(self._inputs)}"
        usual = "unit" if dtype in FLOATS else "small"
        entry = {"name": name, "shape": [extent for _, extent in axes], "dtype": dtype}
        chosen = usual if dtype in FLOATS else kind or usual
        self._inputs.append({**entry, "constant": False, "kind": chosen, "high": high})
        return ["load", name, *(["axis", axis] for axis, _ in axes)]

    def _stage(self, axes: _Axes, body: Expression, reduce: Json | None = None) -> str:
        name = f"S{len(self._stages)}"
        stage = {"name": name, "axes": axes, "reduce": reduce, "bodies": [body], "store": None}
        self._stages.append(stage)
        return name


def _identity(kind: str, dtype: str) -> float | int:
    """What changes nothing."""
    if kind in ("sum", "prod"):
        return int(kind == "prod")
    if dtype in FLOATS:
        return float("-inf" if kind == "max" else "inf")
    limits = np.iinfo(dtype)
    return int(limits.min if kind == "max" else limits.max)


def _under(
    rng: Random, conditions: list[Expression], term: Expression, nothing: Expression
) -> Expression:
    """The term where all conditions hold: they stand together, or one around the other."""
    node = term
    while conditions:
        condition = conditions.pop()
        while conditions and rng.random() < 0.6:
            condition = ["and", condition, conditions.pop()]
        node = ["select", condition, node, nothing]
    return node
