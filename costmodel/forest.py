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

# Bits of a set of leaves.
_LEAVES: Final = 16
_ALL: Final = (1 << _LEAVES) - 1
# LightGBM's code of a node that compares numbers and knows of no missing ones.
_NUMERICAL: Final = "2"
# Statements at once: the sets of leaves of all trees should stay in the caches.
_PART: Final = 2048


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """T trees of up to N conditions, K different ones over all trees.

    Attributes:
        features: intp [U], those that some condition is about.
        subjects: intp [K], the place in ``features`` of what each condition compares.
        limits: float32 [K, 1]; a condition holds up to and including its limit.
        conditions: intp [N, T], the conditions of each tree.
        left_over: uint16 [N, T, 1], the leaves that remain where a condition does not hold.
        values: float64 [T * 16], of the leaves.
    """

    features: NDArray[np.intp]
    subjects: NDArray[np.intp]
    limits: NDArray[np.float32]
    conditions: NDArray[np.intp]
    left_over: NDArray[np.uint16]
    values: NDArray[np.float64]

    @staticmethod
    def of(text: str) -> Forest | None:
        """The trees of a model in LightGBM's format.

        None where they have more than 16 leaves each, other than numerical conditions, or none.
        """
        trees = [_Tree.of(part) for part in text.split("\nTree=")[1:]]
        if not any(tree.conditions for tree in trees) or not all(t.is_plain for t in trees):
            return None
        asked = sorted({condition for tree in trees for condition in tree.conditions})
        place = {condition: n for n, condition in enumerate(asked)}
        features = sorted({feature for feature, _ in asked})
        deepest = max(len(tree.conditions) for tree in trees)
        conditions = np.zeros((deepest, len(trees)), dtype=np.intp)
        left_over = np.full((deepest, len(trees), 1), _ALL, dtype=np.uint16)
        values = np.zeros((len(trees), _LEAVES))
        for n, tree in enumerate(trees):
            order, sets = tree.leaves()
            values[n, : len(order)] = [tree.values[leaf] for leaf in order]
            for node, condition in enumerate(tree.conditions):
                conditions[node, n] = place[condition]
                left_over[node, n] = _ALL & ~sets[node]
        return Forest(
            np.array(features, dtype=np.intp),
            np.searchsorted(features, [feature for feature, _ in asked]),
            _not_above(np.array([[limit] for _, limit in asked])),
            conditions,
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
        asked = values.transpose(1, 0, 2)[self.features].reshape(len(self.features), -1)
        if np.isnan(asked).any():
            return None
        total = np.empty(statements * count)
        for start in range(0, len(total), _PART):
            part = slice(start, start + _PART)
            total[part] = self._sums(asked[:, part])
        return total.reshape(statements, count)

    def _sums(self, asked: NDArray[np.float32]) -> NDArray[np.float64]:
        """[R] for [U, R]."""
        holds = (asked[self.subjects] <= self.limits).view(np.uint8)
        # All bits where a condition holds, else none.
        sets = np.subtract(0, holds, dtype=np.uint16)
        left = np.full((1, 1), _ALL, dtype=np.uint16)
        for conditions, left_over in zip(self.conditions, self.left_over, strict=True):
            kept = sets[conditions]
            kept |= left_over
            kept &= left
            left = kept
        leaves = _LOWEST.take(left) + np.arange(0, len(self.values), _LEAVES)[:, None]
        found = self.values.take(leaves)
        # By tree, as LightGBM does it: the sums are the same to the last bit.  NumPy would add a
        # single column in pairs.
        sums = found.sum(axis=0) if found.shape[1] > 1 else np.add.accumulate(found, axis=0)[-1]
        return np.asarray(sums, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class _Tree:
    """A tree of LightGBM; children below 0 are leaves, ``~child``.

    Attributes:
        conditions: (feature, limit) of each node; the root is the first.
        children: (left, right) of each node.
        values: of the leaves.
        is_plain: at most 16 leaves, and conditions on numbers that are never missing.
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
        return _Tree(
            tuple(zip(_integers(entries, "split_feature"), limits, strict=True)),
            tuple(
                zip(
                    _integers(entries, "left_child"), _integers(entries, "right_child"), strict=True
                )
            ),
            values,
            len(values) <= _LEAVES and {*entries.get("decision_type", ())} <= {_NUMERICAL},
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
    """The largest float32 that is not above each limit: the same float32 values are below it."""
    with np.errstate(over="ignore"):
        near = limits.astype(np.float32)
    return np.where(near > limits, np.nextafter(near, np.float32(-np.inf)), near)


def _lowest_bits() -> NDArray[np.uint8]:
    """The place of the lowest bit of every set."""
    places = np.zeros(_ALL + 1, dtype=np.uint8)
    for bit in range(_LEAVES):
        places[1 << bit :: 1 << bit] = bit
    return places


_LOWEST: Final = _lowest_bits()
