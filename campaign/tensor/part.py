"""The part of the campaign that runs tensor programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from autosched.tasks.spec import DIRECT
from campaign.part import KERNEL, Mark
from campaign.tensor.compare import difference
from campaign.tensor.draw import draw_program
from campaign.tensor.evaluate import evaluate
from campaign.tensor.execute import candidates, execute
from campaign.tensor.express import dag_of
from campaign.tensor.numbers import Number
from campaign.tensor.shrink import smaller_programs
from campaign.tensor.targets import target_of
from campaign.tensor.values import inputs_of
from campaign.verdict import Json, Verdict
from sketch.errors import AutoschedError
from sketch.variants import error_growth


class TensorPart:
    """Programs x targets x sketches x rows, each kernel between unmapped pages."""

    def draw(self, seed: int) -> Json:
        """A program, its target and how its schedules are chosen."""
        return draw_program(seed)

    def judge(self, case: Json, mark: Mark) -> Verdict:
        """Compile and run all kernels of a case; compare with the evaluator."""
        counts: Counter[str] = Counter()
        inputs = inputs_of(case)
        mark("evaluator")
        expected = {DIRECT: evaluate(case, inputs)}
        try:
            message = _run(case, inputs, expected, mark, counts)
        except AutoschedError as error:
            return Verdict("refused", f"{type(error).__name__}: {error}"[:400], dict(counts))
        if message is None:
            return Verdict("right", "", dict(counts))
        outcome: Any = "out_of_bounds" if message.startswith("outside") else "wrong"
        return Verdict(outcome, message, dict(counts))

    def smaller(self, case: Json) -> Iterator[Json]:
        """Fewer stages, smaller extents, simpler bodies."""
        return smaller_programs(case)


def _run(
    case: Json,
    inputs: Mapping[str, Any],
    expected: dict[str, dict[str, Number]],
    mark: Mark,
    counts: Counter[str],
) -> str | None:
    """What is wrong with the results, if anything; ``expected`` by variant, filled as they come."""
    mark("program")
    dag = dag_of(case)
    target = target_of(case)
    for sketch, row in candidates(dag, target, case, mark):
        mark("compiler")
        result = execute(sketch, row, inputs, case["side"], lambda: mark(KERNEL))
        counts["kernels"] += 1
        if result.touched:
            return f"outside: a write next to {result.touched}, {sketch} with {dict(row)}"
        variant = sketch.variant
        counts["variants"] += variant != DIRECT
        if variant not in expected:
            expected[variant] = evaluate(case, inputs, error_growth(variant))
        for name, number in expected[variant].items():
            compared, problem = difference(result.outputs[name], number)
            counts["elements"] += compared
            if problem is not None:
                return f"{name}{problem}; {sketch} with {dict(row)}"
    return None


PART: Final = TensorPart()
