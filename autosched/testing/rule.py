"""What every sketch rule must do, whatever it derives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import ClassVar

import numpy as np

from autosched.measure.inputs import random_inputs
from autosched.testing.programs import convolution, product, small_target
from sketch.dag.dag import ComputeDAG
from sketch.lower import lower
from sketch.lower.packing import preparations
from sketch.nest.interpreter import run_nest
from sketch.oracle.expected import relative_error
from sketch.oracle.interpret import interpret
from sketch.population.population import Population, sample
from sketch.rules.backend import default_rules
from sketch.rules.foreign import checked_rules
from sketch.rules.generate import generate
from sketch.rules.rule import SketchRule
from sketch.schedule.sketch import Sketch, sketch_from_steps
from sketch.target.target import Target
from sketch.verify import verify


class SketchRuleConformance(ABC):
    """What a rule promises: sketches of sound programs that compute what the expressions say.

    A subclass defines ``make``, and ``programs`` where the rule has nothing to offer for those
    given here.  The rule is asked before the built-in ones.

    Attributes:
        rows: random schedules of a sketch that are lowered, verified and run.
        tolerance: largest relative error of an output against the oracle.
    """

    rows: ClassVar[int] = 2
    tolerance: ClassVar[float] = 1e-5

    @abstractmethod
    def make(self) -> SketchRule:
        """The rule; an equal one with every call."""

    @cached_property
    def target(self) -> Target:
        """The machine that sketches are made for."""
        return small_target()

    @cached_property
    def programs(self) -> Mapping[str, ComputeDAG]:
        """Small programs: each of their schedules is interpreted, element by element."""
        return {"product": product(7, 9, 5), "convolution": convolution(4, 2, 4)}

    def sketches(self, dag: ComputeDAG) -> list[Sketch]:
        """The sketches of a program in which the rule took part."""
        rules, name = (self.make(), *default_rules(self.target)), type(self.make()).__name__
        return [sketch for sketch in generate(dag, self.target, rules) if name in sketch.rules]

    def samples(self) -> Iterator[tuple[ComputeDAG, Sketch, Population]]:
        """Random schedules that fit the target, of all sketches of all programs."""
        for dag in self.programs.values():
            for sketch in self.sketches(dag):
                yield dag, sketch, sample(sketch, self.rows, np.random.default_rng(0))

    def test_is_a_rule(self) -> None:
        """A value with the two methods and ``eager``: equal and hashable by its fields."""
        assert checked_rules((self.make(),)) == (self.make(),)
        assert hash(self.make()) == hash(self.make())

    def test_takes_part(self) -> None:
        """It offers something for one of the programs."""
        assert any(self.sketches(dag) for dag in self.programs.values())

    def test_the_same_sketches_each_time(self) -> None:
        """The order of sketches is part of a search's sequence; no two are the same."""
        for dag in self.programs.values():
            keys = [sketch.key for sketch in self.sketches(dag)]
            assert keys == [sketch.key for sketch in self.sketches(dag)]
            assert len(set(keys)) == len(keys)

    def test_steps_alone_give_the_sketch(self) -> None:
        """Logs hold the steps: they replay where the rule is not known."""
        for dag in self.programs.values():
            for sketch in self.sketches(dag):
                replayed = sketch_from_steps(dag, sketch.steps, sketch.variant, self.target)
                assert replayed.key == sketch.key
                assert replayed.decisions == sketch.decisions

    def test_some_schedule_fits_the_target(self) -> None:
        """At least one of its sketches has feasible rows, or nothing of it is ever searched."""
        assert any(len(rows.values) for _, _, rows in self.samples())

    def test_programs_are_sound(self) -> None:
        """No access out of bounds, no value read before it is made, no race of threads."""
        for _, sketch, rows in self.samples():
            for n in range(len(rows.values)):
                verify(lower(sketch, rows.row(n)))

    def test_results_are_those_of_the_oracle(self) -> None:
        """Each schedule computes what the expressions say, whatever its order of sums."""
        for dag, sketch, rows in self.samples():
            inputs = random_inputs(dag, 0)
            expected = interpret(dag, inputs)
            for n in range(len(rows.values)):
                layouts = preparations(sketch, rows.row(n))
                stored = {k: layouts[k].apply(a) if k in layouts else a for k, a in inputs.items()}
                outputs = run_nest(lower(sketch, rows.row(n)), stored)
                for tensor in dag.outputs:
                    found = outputs[tensor.name].reshape(tensor.shape)
                    error = relative_error(found, expected[tensor.name])
                    assert error <= self.tolerance, (sketch, rows.row(n), error)
