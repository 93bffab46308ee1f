"""What evaluates the host steps of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autosched.host.engines import fastest_engine
from autosched.host.evaluator import HostEvaluator
from autosched.runtime.program import HostStep, Step


def host_evaluators(
    steps: Sequence[Step | HostStep], payloads: Mapping[str, bytes]
) -> Mapping[str, HostEvaluator]:
    """One evaluator for each model: steps of equal models share it.

    Args:
        steps: of the plan.
        payloads: the serialized ONNX models of its host steps, by name.
    """
    models = {step.payload: step.info.op for step in steps if isinstance(step, HostStep)}
    return {
        name: HostEvaluator(operator, payloads[name], fastest_engine)
        for name, operator in models.items()
    }
