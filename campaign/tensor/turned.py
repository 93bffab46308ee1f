"""Stages that turn arrays: their last axis is none of the last dimension of what they read."""

from __future__ import annotations

from math import prod
from random import Random
from typing import Any, Final

from campaign.tensor.bodies import Expression, converted, draw_body
from campaign.tensor.indices import whole_number
from campaign.tensor.numbers import FLOATS, arithmetic
from campaign.tensor.targets import NAMES
from campaign.verdict import Json

_EXTENTS: Final = (1, 2, 3, 5, 7, 8, 9, 13, 15, 16, 17, 19, 31, 32, 33, 37, 64, 65, 129)
_MAX_POINTS: Final = 6_000
_DTYPES: Final = (
    *["float32"] * 5, "float64", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64",
    "bool",
)  # fmt: skip
_BEFORE: Final = ("nothing", "nothing", "nothing", "mapped", "turned", "summed")
_AFTER: Final = ("nothing", "nothing", "nothing", "mapped", "turned", "summed", "both")


def draw_turned_program(seed: int) -> Json:
    """An array of two to five dimensions in another order, with what stands before and after it."""
    return _Drawing(Random(seed)).program()


class _Drawing:
    """A program as it grows."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._inputs: list[Json] = []
        self._stages: list[Json] = []
        self._dtype = rng.choice(_DTYPES)
        self._kind = rng.choice(("plain", "plain", "plain", "edges"))

    def program(self) -> Json:
        rng = self._rng
        rank = rng.choice((2, 2, 3, 3, 4, 5))
        axes: list[list[Any]] = []
        room = _MAX_POINTS
        for letter in "abcde"[:rank]:
            extent = rng.choice([e for e in _EXTENTS if e <= room] or [1])
            axes.append([letter, extent])
            room //= extent
        rng.shuffle(axes)
        source = self._before(rng.choice(_BEFORE), axes)
        order = _turned(rng, axes)
        name = self._map(order, [(source, axes)])
        outputs = self._after(rng.choice(_AFTER), name, order)
        return {
            "inputs": self._inputs,
            "stages": self._stages,
            "outputs": outputs,
            "values": rng.randrange(2**31),
            "target": [rng.choice(NAMES), rng.choice((1, 1, 2, 4))],
            "rows": {
                "seed": rng.randrange(2**31),
                "sketches": [rng.randrange(48) for _ in range(3)],
            },
            "side": rng.choice(("end", "end", "start")),
        }

    def _before(self, kind: str, axes: list[list[Any]]) -> str:
        """What is turned: an input, or a stage with these axes."""
        if kind == "mapped":
            return self._map(axes, [])
        if kind == "turned":
            inner = _turned(self._rng, axes)
            return self._map(axes, [(self._input(inner), inner)])
        if kind == "summed" and self._dtype != "bool":
            return self._sum(axes, [["k", self._rng.choice((1, 2, 3, 5, 17))]], None)
        return self._input(axes)

    def _after(self, kind: str, name: str, axes: list[list[Any]]) -> list[str]:
        if kind == "mapped":
            return [self._map(axes, [(name, axes)])]
        if kind == "turned":
            return [self._map(_turned(self._rng, axes), [(name, axes)])]
        if kind == "both":
            return [name, self._map(_turned(self._rng, axes), [(name, axes)])]
        if kind == "summed" and self._dtype != "bool":
            place = self._rng.randrange(len(axes))
            others = [axis for n, axis in enumerate(axes) if n != place] or [["z", 1]]
            return [self._sum(others, [axes[place]], (name, axes))]
        return [name]

    def _input(self, axes: list[list[Any]]) -> str:
        name = f"A{len(self._inputs)}"
        edges = self._kind == "edges" or self._dtype not in FLOATS
        kind = "edges" if edges and self._rng.random() < 0.6 else "unit"
        shape = [extent for _, extent in axes]
        entry = {"name": name, "shape": shape, "dtype": self._dtype, "high": 0}
        self._inputs.append({**entry, "constant": self._rng.random() < 0.2, "kind": kind})
        return name

    def _read(self, name: str, axes: list[list[Any]], exact: bool) -> Expression:
        """An element at the same place, or at one that some dimension counts differently."""
        rng = self._rng
        indices: list[Expression] = []
        for axis, extent in axes:
            node: Expression = ["axis", axis]
            kind = 1.0 if exact else rng.random()
            if kind < 0.06:
                node = ["sub", whole_number(extent - 1), node]
            elif kind < 0.1:
                node = ["mod", ["add", node, whole_number(rng.randrange(3))], whole_number(extent)]
            elif kind < 0.13:
                node = ["floordiv", node, whole_number(rng.choice((2, 3)))]
            elif kind < 0.16:
                node = whole_number(rng.randrange(extent))
            elif kind < 0.2:
                node = self._given(node, extent)
            indices.append(node)
        return ["load", name, *indices]

    def _given(self, node: Expression, extent: int) -> Expression:
        """An index that is data."""
        name = f"A{len(self._inputs)}"
        entry = {"name": name, "shape": [extent], "dtype": "int32", "constant": False}
        self._inputs.append({**entry, "kind": "index", "high": extent})
        low = ["max", ["load", name, node], ["const", 0, "int32"]]
        return ["min", low, ["const", extent - 1, "int32"]]

    def _map(self, axes: list[list[Any]], sources: list[tuple[str, list[list[Any]]]]) -> str:
        """A stage with these axes that reads each source, and perhaps other arrays."""
        rng, dtype = self._rng, self._dtype
        pending = [self._read(*source, exact=rng.random() < 0.6) for source in sources]

        def leaf() -> Expression:
            if pending:
                return pending.pop()
            chosen = rng.sample(axes, rng.randrange(1, len(axes) + 1))
            return self._read(self._input(chosen), chosen, exact=rng.random() < 0.8)

        first = leaf()
        other = draw_body(rng, dtype, leaf, rng.choice((0, 0, 1, 2)))
        join = "ne" if dtype == "bool" else rng.choice(("add", "max", "sub"))
        body = first if rng.random() < 0.4 else [join, first, other]
        bodies = [body]
        if rng.random() < 0.2:
            target = rng.choice(_DTYPES)
            bodies = [converted(rng, body, dtype, target)]
            self._dtype = target
        return self._add(axes, None, bodies)

    def _sum(
        self,
        axes: list[list[Any]],
        reduced: list[list[Any]],
        source: tuple[str, list[list[Any]]] | None,
    ) -> str:
        rng = self._rng
        if source is None:
            shape = [*axes, *reduced]
            rng.shuffle(shape)
            source = self._input(shape), shape
        kind = rng.choice(("sum", "max", "min"))
        name = self._add(axes, {"kind": kind, "axes": reduced}, [self._read(*source, exact=True)])
        self._dtype = arithmetic(self._dtype)
        return name

    def _add(self, axes: list[list[Any]], reduce: Json | None, bodies: list[Expression]) -> str:
        name = f"S{len(self._stages)}"
        stage = {"name": name, "axes": axes, "reduce": reduce, "bodies": bodies, "store": None}
        self._stages.append(stage)
        return name


def _turned(rng: Random, axes: list[list[Any]]) -> list[list[Any]]:
    """The axes in another order, the last one elsewhere if another one is longer than 1."""
    wide = [axis for axis in axes[:-1] if axis[1] > 1]
    last = rng.choice(wide) if wide else axes[0]
    others = [axis for axis in axes if axis is not last]
    rng.shuffle(others)
    assert prod(extent for _, extent in others) * last[1] <= _MAX_POINTS
    return [*others, last]
