"""Trees of a trained model as tables: thousands of statements are scored at once.

Every leaf of a tree is a bit, the leftmost one the lowest.  A statement for which the condition of
a node does not hold cannot end in the leaves on the node's left; of the leaves that all conditions
leave over, it ends in the leftmost one.  So all trees are walked by a few operations on whole
matrices, which takes a fraction of the time of one statement and tree after another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from costmodel.forest_machine import LANES, LEAVES, walk

_ALL: Final = (1 << LEAVES) - 1
# LightGBM's code of a node that compares numbers and knows of no missing ones.
_NUMERICAL: Final = "2"
# LightGBM's ``kZeroThreshold``: it takes a number that is not larger, either way, for 0.
_ZERO: Final = np.float32(1e-35)


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """T trees of up to N conditions.

    Attributes:
        features: intp [U], those that some condition is about.
        subjects: int64 [T, N], the place in ``features`` of what each condition compares.
        limits: float32 [T, N]; a condition holds up to and including its limit.
        left_over: uint16 [T, N], the leaves that remain where a condition does not hold.
        values: float64 [T * 16], of the leaves.
    """

    features: NDArray[np.intp]
    subjects: NDArray[np.int64]
    limits: NDArray[np.float32]
    left_over: NDArray[np.uint16]
    values: NDArray[np.float64]

    @staticmethod
    def of(text: str) -> Forest | None:
        """The trees of a model in LightGBM's format.

        None where they have more than 16 leaves each, other than numerical conditions, or none;
        where leaves are linear functions, or a score is not the sum of all trees.
        """
        head, *parts = text.split("\nTree=")
        trees = [_Tree.of(part) for part in parts]
        if not any(tree.conditions for tree in trees) or not all(t.is_plain for t in trees):
            return None
        lines = head.splitlines()
        if "average_output" in lines or {"num_tree_per_iteration=1"}.isdisjoint(lines):
            return None
        features = sorted({feature for tree in trees for feature, _ in tree.conditions})
        place = {feature: n for n, feature in enumerate(features)}
        shape = len(trees), max(len(tree.conditions) for tree in trees)
        subjects = np.zeros(shape, dtype=np.int64)
        limits = np.zeros(shape)
        left_over = np.full(shape, _ALL, dtype=np.uint16)
        values = np.zeros((len(trees), LEAVES))
        for n, tree in enumerate(trees):
            order, sets = tree.leaves()
            values[n, : len(order)] = [tree.values[leaf] for leaf in order]
            for node, (feature, limit) in enumerate(tree.conditions):
                subjects[n, node], limits[n, node] = place[feature], limit
                left_over[n, node] = _ALL & ~sets[node]
        return Forest(
            np.array(features, dtype=np.intp),
            subjects,
            _not_above(limits),
            left_over,
            values.ravel(),
        )

    def scores(self, values: NDArray[np.float32]) -> NDArray[np.float64] | None:
        """[S, P]: the sum of the trees for all statements of programs.

        None where a value is NaN.

        Args:
            values: float32 [S, F, P], as of ``Features``.
        """
        statements, _, count = values.shape
        rows = statements * count
        blocks = -(-rows // LANES)
        asked = np.zeros((len(self.features), blocks * LANES), dtype=np.float32)
        asked[:, :rows] = values.transpose(1, 0, 2)[self.features].reshape(len(asked), rows)
        if np.isnan(asked).any():
            return None
        # Tree by tree, as LightGBM does it: the sums are the same to the last bit.
        sums = np.empty(blocks * LANES)
        tables = self.subjects, self.limits, self.left_over, self.values, sums
        places = [table.ctypes.data for table in tables]
        if blocks:
            walk()(asked.ctypes.data, asked.strides[0], blocks, *self.limits.shape, *places)
        return sums[:rows].reshape(statements, count)


@dataclass(frozen=True, slots=True)
class _Tree:
    """A tree of LightGBM; children below 0 are leaves, ``~child``.

    Attributes:
        conditions: (feature, limit) of each node; the root is the first.
        children: (left, right) of each node.
        values: of the leaves.
        is_plain: at most 16 leaves, which are numbers, and conditions on numbers that are never
            missing.
    """

    conditions: tuple[tuple[int, float], ...]
    children: tuple[tuple[int, int], ...]
    values: tuple[float, ...]
    is_plain: bool

    @staticmethod
    def of(text: str) -> _Tree:
        """From the lines of one tree."""
        lines = (line.partition("=") for line in text.splitlines())
        entries = {name: value.split() for name, _, value in lines if value}
        limits = map(float, entries.get("threshold", ()))
        values = tuple(map(float, entries["leaf_value"]))
        plain = len(values) <= LEAVES and "leaf_const" not in entries  # which functions have
        return _Tree(
            tuple(zip(_integers(entries, "split_feature"), limits, strict=True)),
            tuple(
                zip(
                    _integers(entries, "left_child"), _integers(entries, "right_child"), strict=True
                )
            ),
            values,
            plain and {*entries.get("decision_type", ())} <= {_NUMERICAL},
        )

    def leaves(self) -> tuple[list[int], dict[int, int]]:
        """Leaves from left to right, and by node the set of those on its left."""
        order: list[int] = []
        sets: dict[int, int] = {}

        def visit(child: int) -> int:
            if child < 0:
                order.append(~child)
                return 1 << (len(order) - 1)
            left, right = self.children[child]
            sets[child] = visit(left)
            return sets[child] | visit(right)

        visit(0 if self.children else -1)
        return order, sets


def _integers(entries: Mapping[str, Sequence[str]], name: str) -> list[int]:
    return [int(word) for word in entries.get(name, ())]


def _not_above(limits: NDArray[np.float64]) -> NDArray[np.float32]:
    """The largest float32 that is not above each limit: the same float32 values are below it.

    What counts as 0 is below a limit if 0 is.
    """
    with np.errstate(over="ignore"):
        near = limits.astype(np.float32)
    found = np.where(near > limits, np.nextafter(near, np.float32(-np.inf)), near)
    around = np.where(limits < 0, np.nextafter(-_ZERO, np.float32(-np.inf)), _ZERO)
    return np.where(np.abs(limits) <= _ZERO, around, found)
