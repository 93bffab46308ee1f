"""What a task is: one computation for one target, in all the ways it can be computed.

What can be done with it (tuning, compiling, explaining, ...) are the methods of ``autosched.Task``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any, Final, Self, TypeGuard

from autosched.system.errors import TaskError
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import Tensor
from sketch.rules.backend import algorithms_of, unsearched_algorithms
from sketch.target.target import Target
from sketch.variants import variants_of

if TYPE_CHECKING:
    from sketch.rules.rule import SketchRule

DIRECT: Final = "direct"

# More often, sums of times are infinite.
_MOST_WEIGHT: Final = 1e100


@dataclass(frozen=True, slots=True)
class Variant:
    """One algorithm for a task: its name, unique in the task, and the program."""

    name: str
    dag: ComputeDAG


Programs = ComputeDAG | Tensor | Sequence[Tensor] | Mapping[str, ComputeDAG] | Sequence[Variant]


@dataclass(frozen=True, eq=False, init=False, repr=False)
class TaskSpec:
    """A computation to tune for a target.

    Attributes:
        variants: the programs that compute it; the first is the reference for all of them.  A
            program that is given alone, or the tensors that are its outputs, gets those that
            ``sketch.variants`` derives from it.
        target: the machine; this one's CPU, where none is given.
        name: for people; no part of the key.
        weight: how often the computation occurs in what is tuned.
        rules: derive the sketches; None: the target's default rules.  No part of the key: records
            hold their own steps, and replay without the rules that made them.
    """

    variants: tuple[Variant, ...]
    target: Target
    name: str
    weight: float
    rules: tuple[SketchRule, ...] | None

    def __init__(
        self,
        program: Programs,
        target: Target | None = None,
        name: str = "",
        weight: float = 1.0,
        rules: tuple[SketchRule, ...] | None = None,
    ) -> None:
        if target is None:
            target = _this_machine()
        if not isinstance(target, Target):
            raise TaskError(f"target {target!r} is no Target", hint='write asd.Target("cpu")')
        variants = _variants(program, target)
        if not isinstance(weight, Real) or not 0 < weight <= _MOST_WEIGHT:
            where = f"task {name or variants[0].dag}"
            raise TaskError(f"weight {weight!r} is not a positive finite number", where)
        object.__setattr__(self, "variants", variants)
        object.__setattr__(self, "target", target)
        object.__setattr__(self, "name", name or variants[0].dag.stages[-1].name)
        object.__setattr__(self, "weight", float(weight))
        object.__setattr__(self, "rules", rules)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.key}: {self.name}, weight={self.weight:g})"

    def __str__(self) -> str:
        return f"{self.describe()}\n{self.dag}"

    @property
    def dag(self) -> ComputeDAG:
        """The first variant's program, the reference."""
        return self.variants[0].dag

    @cached_property
    def key(self) -> str:
        """Structural hash of the reference, 16 hex digits; neither names nor target count.

        The other variants do not count either: records say which one they are of, so a log stays
        good when a new way to compute a task is found.
        """
        return self.dag.key

    @property
    def flops(self) -> float:
        """Floating-point operations of the first variant, the base of all GFLOPS figures."""
        return self.dag.flops

    def variant(self, name: str) -> Variant:
        """The variant of that name, or one that is not searched but is in logs.

        Raises TaskError when there is none.
        """
        found = _named(name, self.variants) or _named(name, self._unsearched)
        if found is not None:
            return found
        known = ", ".join(variant.name for variant in self.variants)
        raise TaskError(f"there is no variant {name!r}", f"task {self.name}", f"known: {known}")

    @cached_property
    def _unsearched(self) -> tuple[Variant, ...]:
        if self.variants[0].name != DIRECT:  # programs of a user's, not derived ones
            return ()
        others = variants_of(self.dag, unsearched_algorithms(self.target))
        return tuple(Variant(name, dag) for name, dag in others.items())

    def with_weight(self, weight: float) -> Self:
        """The same task, occurring ``weight`` times."""
        return type(self)(self.variants, self.target, self.name, weight, self.rules)

    def with_rules(self, rules: tuple[SketchRule, ...]) -> Self:
        """The same task, its sketches derived by ``rules``."""
        return type(self)(self.variants, self.target, self.name, self.weight, rules)

    def reference_only(self) -> Self:
        """The same task without its other variants."""
        return type(self)(self.variants[:1], self.target, self.name, self.weight, self.rules)

    def describe(self) -> str:
        """One line: name, output shapes, FLOPs, variants."""
        shapes = ", ".join("x".join(map(str, array.shape)) for array in self.dag.output_arrays)
        names = "/".join(variant.name for variant in self.variants)
        return f"{self.name} [{shapes}] {self.flops / 1e6:.4g} MFLOP ({names})"


def _this_machine() -> Target:
    from codegen.named_targets import named_target

    return named_target("cpu")


def _named(name: str, variants: Sequence[Variant]) -> Variant | None:
    return next((variant for variant in variants if variant.name == name), None)


def _variants(program: Programs, target: Target) -> tuple[Variant, ...]:
    if _are_tensors(program):
        program = ComputeDAG(program)
    match program:
        case ComputeDAG():
            others = variants_of(program, algorithms_of(target))
            found = tuple(Variant(name, dag) for name, dag in ({DIRECT: program} | others).items())
        case Mapping():
            found = tuple(Variant(name, dag) for name, dag in program.items())
        case _:
            found = tuple(_listed(program))
    for variant in found:
        if not isinstance(variant, Variant) or not isinstance(variant.dag, ComputeDAG):
            raise TaskError(f"{variant!r} is no program", hint="give a ComputeDAG")
    if not found:
        raise TaskError("a task needs at least one variant", hint="give a ComputeDAG")
    names = [variant.name for variant in found]
    if len(set(names)) < len(names):
        raise TaskError(f"two variants have one name: {names}", hint="give each its own")
    _check_same_interface(found)
    return found


def _listed(program: Any) -> Sequence[Any]:
    return program if isinstance(program, Sequence) else (program,)


def _are_tensors(program: object) -> TypeGuard[Sequence[Tensor] | Tensor]:
    """Whether it is a tensor, or some and nothing else."""
    listed = _listed(program)
    return len(listed) > 0 and all(isinstance(item, Tensor) for item in listed)


def _check_same_interface(variants: tuple[Variant, ...]) -> None:
    def interface(dag: ComputeDAG) -> tuple[object, ...]:
        inputs = {(t.name, t.given_shape, t.dtype) for t in dag.inputs}
        return inputs, len(dag.output_arrays)

    first = variants[0]
    for other in variants[1:]:
        if interface(other.dag) != interface(first.dag):
            raise TaskError(
                f"variants {first.name!r} and {other.name!r} have different inputs or outputs",
                hint="variants compute the same results from the same placeholders",
            )
