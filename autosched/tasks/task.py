"""A task: what is tuned as a unit - one computation, in all the ways it can be computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Final

from numpy.typing import NDArray

from autosched.measure.protocol import Candidate
from autosched.system.errors import TaskError
from sketch.dag.dag import ComputeDAG
from sketch.target.target import Target
from sketch.variants import variants_of

if TYPE_CHECKING:
    from autosched.measure.protocol import Runner
    from autosched.report.callbacks import Callback
    from autosched.report.events import Progress
    from autosched.runtime.module import Module
    from autosched.search.space import Space
    from autosched.tuning.options import TuneOptions
    from autosched.tuning.result import TuneResult
    from codegen.kernel import Kernel
    from costmodel.model import CostModel
    from sketch.rules.rule import SketchRule
    from sketch.schedule.sketch import Sketch

__all__ = ["Candidate", "Task", "Variant"]

DIRECT: Final = "direct"
Path = str | PathLike[str]


@dataclass(frozen=True, slots=True)
class Variant:
    """One algorithm for a task: its name, unique in the task, and the program."""

    name: str
    dag: ComputeDAG


Programs = ComputeDAG | Mapping[str, ComputeDAG] | Sequence[Variant]


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Task:
    """A computation to tune for a target.

    Attributes:
        variants: the programs that compute it; the first is the reference for all of them.  A
            program that is given alone gets those that ``sketch.variants`` derives from it.
        target: the machine.
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
        target: Target,
        name: str = "",
        weight: float = 1.0,
        rules: tuple[SketchRule, ...] | None = None,
    ) -> None:
        variants = _variants(program, target)
        if not weight > 0:
            raise TaskError(f"weight {weight} is not positive", f"task {name or variants[0].dag}")
        object.__setattr__(self, "variants", variants)
        object.__setattr__(self, "target", target)
        object.__setattr__(self, "name", name or variants[0].dag.stages[-1].name)
        object.__setattr__(self, "weight", float(weight))
        object.__setattr__(self, "rules", rules)

    def __repr__(self) -> str:
        return f"Task({self.key}: {self.name}, weight={self.weight:g})"

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

    @cached_property
    def space(self) -> Space:
        """The sketches worth searching, with what the draft model says of them."""
        from autosched.search.space import build_space

        return build_space(self.variants, self.target, self.rules)

    @cached_property
    def _reference_space(self) -> Space:
        return self.space if len(self.variants) == 1 else self.reference_only().space

    def draft_candidate(self, quick: bool = False) -> Candidate:
        """What the draft model likes best of the reference, or ``quick`` of a few of its rows.

        What was never measured is computed as it is written.
        """
        from autosched.search.space import build_space

        if quick and "_reference_space" not in self.__dict__:
            reference = self.variants[:1]
            with suppress(TaskError):  # few feasible rows: a quick look may find none
                return build_space(reference, self.target, self.rules, quick).draft_candidate()
        return self._reference_space.draft_candidate()

    @property
    def sketches(self) -> tuple[Sketch, ...]:
        """Sketches of all variants that are worth searching, most promising first."""
        return self.space.sketches

    def variant(self, name: str) -> Variant:
        """The variant of that name; raises TaskError when there is none."""
        for variant in self.variants:
            if variant.name == name:
                return variant
        known = ", ".join(variant.name for variant in self.variants)
        raise TaskError(f"there is no variant {name!r}", f"task {self.name}", f"known: {known}")

    def with_weight(self, weight: float) -> Task:
        """The same task, occurring ``weight`` times."""
        return Task(self.variants, self.target, self.name, weight, self.rules)

    def with_rules(self, rules: tuple[SketchRule, ...]) -> Task:
        """The same task, its sketches derived by ``rules``."""
        return Task(self.variants, self.target, self.name, self.weight, rules)

    def reference_only(self) -> Task:
        """The same task without its other variants."""
        return Task(self.variants[:1], self.target, self.name, self.weight, self.rules)

    def describe(self) -> str:
        """One line: name, output shapes, FLOPs, variants."""
        shapes = ", ".join("x".join(map(str, array.shape)) for array in self.dag.output_arrays)
        names = "/".join(variant.name for variant in self.variants)
        return f"{self.name} [{shapes}] {self.flops / 1e6:.4g} MFLOP ({names})"

    def candidate(self, log: Path | None = None) -> Candidate:
        """The best measured candidate in a log, or what the draft model likes best without one."""
        from autosched.search.recall import build_best

        return build_best(self, log, lambda candidate: candidate)[0]

    def tune(
        self,
        trials: int | None = None,
        log: Path | None = None,
        budget: str | float | None = None,
        options: TuneOptions | None = None,
        progress: Progress | None = None,
        cost_model: CostModel | None = None,
        callbacks: Sequence[Callback] = (),
        runner: Runner | None = None,
    ) -> TuneResult:
        """Search and measure on this machine; every trial goes to ``log``, which may exist.

        Without any limit, 256 trials.  All arguments are explained at ``autosched.tune``.
        """
        from autosched.tuning.local import tune_locally
        from autosched.tuning.options import TuneOptions
        from autosched.tuning.request import TuneRequest

        request = TuneRequest(
            log, trials, budget, None, options or TuneOptions(), progress,
            cost_model=cost_model, callbacks=callbacks, runner=runner,
        )  # fmt: skip
        return tune_locally([self], request)

    def compile(self, log: Path | None = None) -> Kernel:
        """Machine code of ``candidate(log)``."""
        from autosched.search.recall import build_best
        from codegen.build import build
        from sketch.lower import lower

        return build_best(
            self, log, lambda best: build(lower(best.sketch, dict(best.values)), self.target)
        )[0]

    def module(
        self, constants: Mapping[str, NDArray[Any]] | None = None, log: Path | None = None
    ) -> Module:
        """``candidate(log)`` as a module that runs on arrays; packs the given constants."""
        from autosched.compilation.task import task_module

        return task_module(self, constants, log)

    def explain(self, log: Path | None = None) -> str:
        """Text: the schedule as loops, its time against what the machine could do, and the rest."""
        from autosched.report.explain import explain

        return explain(self, log)


def _variants(program: Programs, target: Target) -> tuple[Variant, ...]:
    match program:
        case ComputeDAG():
            others = variants_of(program, target)
            found = tuple(Variant(name, dag) for name, dag in ({DIRECT: program} | others).items())
        case Mapping():
            found = tuple(Variant(name, dag) for name, dag in program.items())
        case _:
            found = tuple(program)
    if not found:
        raise TaskError("a task needs at least one variant", hint="give a ComputeDAG")
    names = [variant.name for variant in found]
    if len(set(names)) < len(names):
        raise TaskError(f"two variants have one name: {names}", hint="give each its own")
    _check_same_interface(found)
    return found


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
