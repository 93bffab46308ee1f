"""Random index expressions: affine, quasi-affine, guarded, and made of data."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final

from campaign.tensor.evaluate import evaluate_index

Axis = Sequence[Any]  # name, extent
Expression = list[Any]
_SIZES: Final = (1, 2, 3, 4, 5, 7, 8, 16)


def whole_number(value: int) -> Expression:
    """A constant of index arithmetic."""
    return ["const", value, "int64"]


def _plus(node: Expression, offset: int) -> Expression:
    return ["add", node, whole_number(offset)] if offset else node


def _times(node: Expression, factor: int) -> Expression:
    return ["mul", node, whole_number(factor)] if factor != 1 else node


def affine(rng: Random, axes: Sequence[Axis]) -> Expression:
    """An affine form of one or two axes."""
    name, extent = rng.choice(axes)
    node: Expression = ["axis", name]
    kind = rng.random()
    if kind < 0.55:
        return node
    if kind < 0.65:
        return ["sub", whole_number(extent - 1), node]
    if kind < 0.8 or len(axes) < 2:
        return _plus(_times(node, rng.choice((1, 2, 3))), rng.randrange(3))
    other, _ = rng.choice([axis for axis in axes if axis[0] != name])
    return [
        "add",
        _times(node, rng.choice((1, 1, 2, 3))),
        _times(["axis", other], rng.choice((1, 2))),
    ]


def quasi_affine(rng: Random, axes: Sequence[Axis]) -> Expression:
    """A form with ``//`` or ``%``."""
    node, size = affine(rng, axes), whole_number(rng.choice(_SIZES))
    kind = rng.random()
    if kind < 0.4:
        return ["floordiv", node, size]
    if kind < 0.7:
        return ["mod", _plus(_times(node, rng.choice((1, 3, 5))), rng.randrange(4)), size]
    if len(axes) < 2:
        return ["mod", ["floordiv", node, size], whole_number(rng.choice((2, 3, 5)))]
    (first, _), (second, extent) = rng.sample(list(axes), 2)
    flat: Expression = ["add", ["mul", ["axis", first], whole_number(extent)], ["axis", second]]
    return [rng.choice(("floordiv", "mod")), flat, size]


def limits(node: Expression, axes: Sequence[Axis]) -> tuple[int, int]:
    """The least and the largest value of an index over all points."""
    values = evaluate_index(node, axes)
    return int(values.min()), int(values.max())


def draw_index(rng: Random, axes: Sequence[Axis], plain: float) -> tuple[Expression, bool]:
    """(index, whether it is affine); it is one axis with the probability ``plain``."""
    if rng.random() < plain:
        return ["axis", rng.choice(axes)[0]], True
    kind = rng.random()
    if kind < 0.6:
        return affine(rng, axes), True
    if kind < 0.95:
        return quasi_affine(rng, axes), False
    return whole_number(rng.randrange(3)), True


def inside(node: Expression, extent: int, axes: Sequence[Axis]) -> bool:
    """Whether an index never leaves ``extent``."""
    low, high = limits(node, axes)
    return low >= 0 and high < extent


def fit(rng: Random, extent: int, axes: Sequence[Axis], plain: float) -> Expression:
    """An index that stays inside ``extent``."""
    for _ in range(4):
        node, _ = draw_index(rng, axes, plain)
        if inside(node, extent, axes):
            return node
        name, own = rng.choice(axes)
        if own <= extent and rng.random() < 0.8:
            return _plus(["axis", name], rng.randrange(extent - own + 1))
    low, _ = limits(node, axes)
    return ["mod", _plus(node, max(0, -low)), whole_number(extent)]


def guarded(
    rng: Random, extent: int, axes: Sequence[Axis]
) -> tuple[Expression, list[Expression]] | None:
    """(affine index, conditions) that leaves ``extent`` where the conditions do not hold."""
    node = affine(rng, axes)
    low, high = limits(node, axes)
    shift = rng.randrange(3)
    node = _plus(node, -low - shift) if low + shift else node
    low, high = -shift, high - low - shift
    conditions: list[Expression] = []
    if low < 0:
        conditions.append(["ge", node, whole_number(0)])
    if high >= extent:
        conditions.append(["lt", node, whole_number(extent)])
    if low > extent or high < 0 or not conditions:
        return None
    return node, conditions
