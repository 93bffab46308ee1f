"""One statement: what it writes and reads lies inside buffers that exist, as they are laid out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sketch.errors import LoweringError
from sketch.lang.expr import Expr, Select
from sketch.lang.rewrite import children
from sketch.nest.loopnest import (
    Affine,
    AffineValue,
    Buffer,
    BufferLoad,
    Index,
    Predicate,
    Quasi,
    Store,
)
from sketch.verify.conditions import implied
from sketch.verify.facts import Facts

Reader = Callable[[BufferLoad, Facts], None]


def check_targets(store: Store, facts: Facts) -> None:
    """Raise LoweringError where a statement may write outside its targets."""
    for target in store.targets:
        _check_access(target, store.indices, facts, "writes")


def visit_loads(value: Expr, facts: Facts, read: Reader) -> None:
    """``read`` every load that may happen, with what is known there."""
    _Visit(read).loads(value, facts)


@dataclass(frozen=True, slots=True)
class _Visit:
    """Visits every part of a value once for all places where the same is known."""

    read: Reader
    seen: set[tuple[int, int]] = field(default_factory=set)
    # Holds on to the facts whose identity is in ``seen``.
    under: dict[tuple[Facts, tuple[Predicate, ...]], Facts] = field(default_factory=dict)

    def loads(self, expr: Expr, facts: Facts) -> None:
        """Visit a part of the value."""
        key = id(expr), id(facts)
        if key not in self.seen:
            self.seen.add(key)
            self._loads(expr, facts)

    def _loads(self, expr: Expr, facts: Facts) -> None:
        match expr:
            case BufferLoad():
                self.read(expr, facts)
                for index in expr.indices:
                    if isinstance(index, Quasi):
                        self.loads(index.expr, facts)
            case AffineValue(index):
                facts.plain(index)  # its variables are known here
            case Select(condition, then, otherwise):
                self.loads(condition, facts)
                for branch, holds in ((then, True), (otherwise, False)):
                    there = self._also(facts, implied(condition, holds, facts.interval))
                    if not there.impossible:
                        self.loads(branch, there)
            case _:
                for child in children(expr):
                    self.loads(child, facts)

    def _also(self, facts: Facts, predicates: tuple[Predicate, ...]) -> Facts:
        """What is known under a condition: the same where equal conditions guard several parts."""
        if not predicates:
            return facts
        key = facts, predicates
        known = self.under.get(key)
        if known is None:
            known = self.under[key] = facts.also(predicates)
        return known


def check_load(load: BufferLoad, facts: Facts) -> None:
    """Raise LoweringError where a read may leave its buffer."""
    _check_access(load.buffer, load.indices, facts, "reads")


def _check_access(buffer: Buffer, indices: tuple[Index, ...], facts: Facts, verb: str) -> None:
    if len(indices) != len(buffer.shape):
        raise LoweringError(f"{verb} {buffer.name} by {len(indices)} indices", facts.where)
    for dim, index in enumerate(indices):
        extent, step = int(buffer.shape[dim]), int(buffer.steps[dim])
        if not facts.within(index, extent):
            low, high = facts.bounds(index) or ("anywhere", "")
            raise LoweringError(
                f"{verb} {buffer.name} at {low}..{high} of dimension {dim}, which has {extent}",
                facts.where,
            )
        if step > 1 and not _is_multiple(index, step, facts):
            raise LoweringError(
                f"{verb} {buffer.name}, which is packed in panels of {step}, at places that are "
                f"not multiples of {step}",
                facts.where,
                "pack by all loops of the innermost levels of the axis",
            )


def _is_multiple(index: Index, step: int, facts: Facts) -> bool:
    if not isinstance(index, Affine):
        return False
    return index.const % step == 0 and all(
        coefficient * facts.strides[var] % step == 0 or facts.reaches[var] == 0
        for var, coefficient in index.terms
    )
