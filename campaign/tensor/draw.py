"""Random tensor programs as JSON.

A program is ``{"inputs", "stages", "outputs"}`` with the values' seed, the target, and how its
schedules are chosen.  Expressions are lists: ``["axis", name]``, ``["const", value, dtype]``,
``["load", tensor, index, ...]``, ``["cast", dtype, e]``, ``["select", c, a, b]``, ``[op, e]``,
``[op, a, b]``.
"""

from __future__ import annotations

from math import prod
from random import Random
from typing import Any, Final

from campaign.tensor.bodies import Expression, constant, converted, draw_body, loads
from campaign.tensor.indices import draw_index, fit, guarded, limits, whole_number
from campaign.tensor.numbers import FLOATS, arithmetic
from campaign.tensor.scatters import draw_scatter_program
from campaign.tensor.targets import NAMES
from campaign.tensor.turned import draw_turned_program
from campaign.tensor.windows import draw_window_program
from campaign.verdict import Json

_EXTENTS: Final = (1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 23, 31, 32, 33, 37, 48, 65)
_LONG: Final = (127, 130, 257, 300, 512, 999)
_FAMILIES: Final = 10
_TURNED: Final = 4
_SCATTERS: Final = 9
_MAX_POINTS, _MAX_GRID = 4_000, 30_000
_DTYPES: Final = (
    *["float32"] * 10, "float64", "float64", "float16", "float16", "bfloat16", "bfloat16",
    "int32", "int32", "int64", "int8", "int8", "int16", "uint8", "bool",
)  # fmt: skip
_STRANGE_NAMES: Final = (
    "C.local", "x_part", "S0.local", "S0.rf", "S1.cache", "data.packed", "A.v0", "größe", "名",
    "a b", "x.i.0", "0", "%x", 'a"b', "k_entry", "_", "out.local.i", "S0_local", "memcpy", "exp",
    "i", "j.outer", "S0.v1", "workspace", "args", "a-b", "a/b", "main", "S0.i", "x" * 70,
)  # fmt: skip


def draw_program(seed: int) -> Json:
    """The program of a seed; every tenth is a convolution, as many turn an array, or scatter."""
    if seed % _FAMILIES == 0:
        return draw_window_program(seed, dilated=seed // _FAMILIES % 2 == 1)
    if seed % _FAMILIES == _TURNED:
        return draw_turned_program(seed)
    if seed % _FAMILIES == _SCATTERS:
        return draw_scatter_program(seed)
    return _Drawing(Random(seed)).program()


class _Drawing:
    """A program as it grows."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._strange = rng.random() < 0.15
        self._edges = rng.random() < 0.12
        self._inputs: list[Json] = []
        self._stages: list[Json] = []
        self._tensors: dict[str, tuple[tuple[int, ...], str]] = {}
        self._read: set[str] = set()
        self._names: set[str] = set()

    def program(self) -> Json:
        rng = self._rng
        for place in range(rng.choice((1, 1, 2, 2, 2, 3, 3, 4))):
            self._stage(last=place)
        outputs = [name for name in self._tensors if self._is_sink(name)]
        if rng.random() < 0.1:
            outputs += self._twins()
        inner = [s["name"] for s in self._stages if s["name"] in self._read and not s["store"]]
        if inner and rng.random() < 0.1:
            outputs = list(dict.fromkeys([*outputs, rng.choice(inner)]))
        sketches: list[Any] = [rng.randrange(48) for _ in range(rng.choice((1, 2, 2)))]
        if rng.random() < 0.06:
            sketches = ["default"]
        return {
            "inputs": self._inputs,
            "stages": self._stages,
            "outputs": outputs,
            "values": rng.randrange(2**31),
            "target": [rng.choice(NAMES), rng.choice((1, 1, 1, 1, 1, 2, 2, 3))],
            "rows": {"seed": rng.randrange(2**31), "sketches": sketches},
            "side": rng.choice(("end", "end", "start")),
        }

    def _is_sink(self, name: str) -> bool:
        return name not in self._read and name not in {i["name"] for i in self._inputs}

    def _name(self, plain: str) -> str:
        name = plain
        if self._strange and self._rng.random() < 0.6:
            name = self._rng.choice(_STRANGE_NAMES)
        while name in self._names:
            name += "_"
        self._names.add(name)
        return name

    def _axes(self, letters: str, budget: int) -> list[list[Any]]:
        axes: list[list[Any]] = []
        for letter in letters:
            pool = _LONG if self._rng.random() < 0.06 else _EXTENTS
            extent = self._rng.choice([e for e in pool if e <= budget] or [1])
            budget //= extent
            axes.append([self._axis_name(letter), extent])
        self._rng.shuffle(axes)
        return axes

    def _axis_name(self, letter: str) -> str:
        if self._strange and self._rng.random() < 0.3:
            return self._rng.choice((f"{letter}.0", f"{letter}_outer", f"ä{letter}", f"{letter} x"))
        return letter

    # Leaves

    def _new_input(
        self, shape: tuple[int, ...], dtype: str, kind: str, constant: bool, high: int = 0
    ) -> str:
        name = self._name(f"A{len(self._inputs)}")
        entry = {"name": name, "shape": list(shape), "dtype": dtype, "constant": constant}
        self._inputs.append({**entry, "kind": kind, "high": high})
        self._tensors[name] = (shape, dtype)
        return name

    def _kind(self, dtype: str) -> str:
        if self._edges:
            return "edges"
        if dtype in FLOATS:
            return self._rng.choice(("unit", "unit", "unit", "positive", "whole"))
        return self._rng.choice(("small", "small", "edges"))

    def _read_new(self, dtype: str, axes: list[list[Any]], plain: float) -> Expression:
        """A read of a new input, as long as its indices need, and no longer."""
        rng = self._rng
        rank = min(len(axes), rng.choice((1, 2, 2, 3)))
        chosen = rng.sample(axes, rank) if rng.random() < 0.8 else [rng.choice(axes)] * rank
        shape, indices, conditions = [], [], []
        for axis in chosen:
            local = [axis] if rng.random() < 0.7 else axes
            node, is_affine = draw_index(rng, local, plain)
            low, high = limits(node, axes)
            if is_affine and high - low >= 2 and rng.random() < 0.15:
                cut = rng.choice((1, 1, 2)) if high - low >= 4 else 1
                node = ["sub", node, whole_number(low + cut)]
                extent = max(1, high - low + 1 - cut - rng.randrange(2))
                conditions += [["ge", node, whole_number(0)], ["lt", node, whole_number(extent)]]
            else:
                node = ["add", node, whole_number(-low)] if low < 0 else node
                extent = high + 1 - min(low, 0)
            shape.append(extent)
            indices.append(node)
        if prod(shape) > 20_000:
            return ["load", self._new_input((3,), dtype, self._kind(dtype), False), whole_number(1)]
        fixed = rng.random() < 0.3
        name = self._new_input(tuple(shape), dtype, self._kind(dtype), fixed)
        return self._guard(["load", name, *indices], conditions, dtype)

    def _guard(self, read: Expression, conditions: list[Expression], dtype: str) -> Expression:
        if not conditions:
            return read
        test = conditions[0]
        for condition in conditions[1:]:
            test = ["and", test, condition]
        zero: Expression = ["const", 0.0 if dtype in FLOATS else 0, dtype]
        other = ["const", False, "bool"] if dtype == "bool" else zero
        return ["select", test, read, other]

    def _read_old(self, name: str, axes: list[list[Any]], plain: float) -> Expression:
        """A read of a tensor that is there: indices that fit, are guarded, or are data."""
        rng = self._rng
        shape, dtype = self._tensors[name]
        self._read.add(name)
        indices, conditions, free = [], [], [list(axis) for axis in axes]
        for extent in shape:
            same = [axis for axis in free if axis[1] == extent]
            if same and rng.random() < plain:
                indices.append(["axis", same[0][0]])
                free.remove(same[0])
                continue
            found = guarded(rng, extent, axes) if rng.random() < 0.2 else None
            if found is not None:
                indices.append(found[0])
                conditions += found[1]
            elif rng.random() < 0.06:
                indices.append(self._data_index(extent, axes))
            else:
                indices.append(fit(rng, extent, axes, plain))
        return self._guard(["load", name, *indices], conditions, dtype)

    def _data_index(self, extent: int, axes: list[list[Any]]) -> Expression:
        axis, length = self._rng.choice(axes)
        dtype = self._rng.choice(("int32", "int64"))
        name = self._new_input((length,), dtype, "index", False, high=extent)
        low = ["max", ["load", name, ["axis", axis]], ["const", 0, dtype]]
        return ["min", low, ["const", extent - 1, dtype]]

    # Stages

    def _stage(self, last: int) -> None:
        rng = self._rng
        old = [n for n, (shape, _) in self._tensors.items() if self._is_stage(n)]
        source = rng.choice(old[-2:]) if old and (last == 1 or rng.random() < 0.85) else None
        dtype = rng.choice(_DTYPES) if source is None else self._tensors[source][1]
        kind = rng.random()
        budget = _MAX_POINTS if rng.random() < 0.8 else 600
        axes = self._axes("ijhw"[: rng.choice((1, 2, 2, 3, 3, 4))], budget)
        if source is not None and rng.random() < 0.6:
            letters = [self._axis_name(letter) for letter in "ijhw"]
            shape = self._tensors[source][0]
            axes = [[name, extent] for name, extent in zip(letters, shape, strict=False)]
        if kind < 0.4 or dtype == "bool" or self._edges:
            self._map(dtype, axes, source)
        else:
            self._reduction(dtype, axes, source)

    def _is_stage(self, name: str) -> bool:
        return all(entry["name"] != name for entry in self._inputs)

    def _leaf(self, dtype: str, axes: list[list[Any]], source: str | None, plain: float) -> Any:
        """A function that draws leaves: the first reads ``source``, the others anything."""
        pending = [source] if source is not None else []
        fresh: list[Expression] = []

        def leaf() -> Expression:
            if pending:
                return self._read_old(pending.pop(), axes, plain)
            known = [n for n, (s, d) in self._tensors.items() if d == dtype and len(s) <= 4]
            if known and self._rng.random() < 0.35:
                return self._read_old(self._rng.choice(known), axes, plain)
            if fresh and self._rng.random() < 0.4:
                return self._rng.choice(fresh)
            if self._rng.random() < 0.05 and dtype in ("float32", "int64", "int32"):
                return ["cast", dtype, ["axis", self._rng.choice(axes)[0]]]
            if len(self._inputs) >= 6:
                return constant(self._rng, dtype)
            fresh.append(self._read_new(dtype, axes, plain))
            return fresh[-1]

        return leaf

    def _map(self, dtype: str, axes: list[list[Any]], source: str | None) -> None:
        rng = self._rng
        leaf = self._leaf(dtype, axes, source, rng.choice((0.5, 0.9)))
        bodies = [draw_body(rng, dtype, leaf, rng.choice((0, 1, 2, 3)))]
        if source is not None and source not in loads(bodies):
            node = self._read_old(source, axes, 0.9)
            bodies = [[("ne" if dtype == "bool" else "max"), bodies[0], node]]
        final = dtype
        if rng.random() < 0.15 and not (self._edges and dtype in ("float16", "bfloat16")):
            final = rng.choice(_DTYPES)
            bodies = [converted(rng, bodies[0], dtype, final)]
        dtypes = [final]
        if rng.random() < 0.08:
            bodies.append(draw_body(rng, dtype, leaf, 1))
            dtypes.append(dtype)
        self._add(axes, None, bodies, dtypes)

    def _reduction(self, dtype: str, axes: list[list[Any]], source: str | None) -> None:
        rng = self._rng
        room = max(1, _MAX_GRID // max(1, prod(extent for _, extent in axes)))
        reduced = self._axes("kr"[: rng.choice((1, 1, 2))], room)
        both = axes + reduced
        leaf = self._leaf(dtype, both, source, rng.choice((0.4, 0.85)))
        kinds = ["sum"] * 6 + ["max", "min", "prod", "argmax", "argmin"]
        if dtype in ("float32", "float64"):
            kinds += ["sum_sum", "sum_max", "log_sum"]
        kind = rng.choice(kinds)
        if kind == "sum" and rng.random() < 0.6:
            node: Expression = ["mul", self._tap(dtype, axes, reduced, source), leaf()]
        else:
            node = draw_body(rng, dtype, leaf, rng.choice((0, 1, 2)))
        wide = arithmetic(dtype)
        bodies, dtypes = [node], [wide]
        if kind in ("argmax", "argmin"):
            bodies, dtypes = [["axis", rng.choice(reduced)[0]], node], ["int64", wide]
            reduced_names = {name for name, _ in reduced}
            reduced = [axis for axis in reduced if axis[0] == bodies[0][1]]
            if len(reduced_names) > 1:
                self._drop_axes(bodies, reduced_names - {bodies[0][1]})
        elif kind in ("sum_sum", "sum_max", "log_sum"):
            bodies, dtypes = [node, draw_body(rng, dtype, leaf, 1)], [wide, wide]
        self._add(axes, {"kind": kind, "axes": reduced}, bodies, dtypes)

    def _drop_axes(self, nodes: list[Any], names: set[str]) -> None:
        """Axes that are not reduced over after all become 0."""
        for place, node in enumerate(nodes):
            if isinstance(node, list):
                if node[:1] == ["axis"] and node[1] in names:
                    nodes[place] = whole_number(0)
                else:
                    self._drop_axes(node, names)

    def _tap(
        self, dtype: str, axes: list[list[Any]], reduced: list[list[Any]], source: str | None
    ) -> Expression:
        """An operand of a contraction: its indices are axes, one of a window at most."""
        rng = self._rng
        if source is not None and rng.random() < 0.5:
            return self._read_old(source, axes + reduced, 0.6)
        chosen = rng.sample(axes, rng.randrange(len(axes) + 1))[:2] + list(reduced)
        rng.shuffle(chosen)
        shape = tuple(extent for _, extent in chosen)
        if len(self._inputs) >= 6 or prod(shape) > 20_000:
            return self._read_new(dtype, reduced, 0.9)
        name = self._new_input(shape, dtype, self._kind(dtype), rng.random() < 0.6)
        return ["load", name, *(["axis", axis] for axis, _ in chosen)]

    def _add(
        self,
        axes: list[list[Any]],
        reduce: Json | None,
        bodies: list[Expression],
        dtypes: list[str],
        store: Json | None = None,
    ) -> list[str]:
        name = self._name(f"S{len(self._stages)}")
        stage = {"name": name, "axes": axes, "reduce": reduce, "bodies": bodies, "store": store}
        self._stages.append(stage)
        shape = tuple(extent for _, extent in axes)
        many = len(dtypes) > 1
        names = [f"{name}.v{n}" if many else name for n in range(len(dtypes))]
        self._names |= set(names)
        self._tensors |= {n: (shape, d) for n, d in zip(names, dtypes, strict=True)}
        return names

    def _twins(self) -> list[str]:
        """Two stages that write one buffer: one behind the other, or in turns."""
        rng = self._rng
        rows, columns = rng.choice(_EXTENTS), rng.choice(_EXTENTS)
        dtype, turns = rng.choice(_DTYPES), rng.random() < 0.5
        buffer = self._name("Y")
        other = rows if turns else rng.choice(_EXTENTS)
        for place, extent in enumerate((rows, other)):
            axes = [["i", extent], ["j", columns]]
            leaf = self._leaf(dtype, axes, None, 0.9)
            body = draw_body(rng, dtype, leaf, 1)
            shape = [rows, 2 * columns] if turns else [rows + other, columns]
            store = {
                "buffer": buffer,
                "shape": shape,
                "offset": place * (1 if turns else rows * columns),
                "strides": [2 * columns, 2] if turns else [columns, 1],
            }
            (name,) = self._add(axes, None, [body], [dtype], store)
            self._read.add(name)
        return [buffer]
