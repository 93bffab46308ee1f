"""Worker of ``benchmarks.onnx_nodes``: runs cases one after another, one line of JSON each.

Arguments: numbers of the cases to run, the last excluded.  A line ``{"case": number}`` is
written before a case is run, its result after it, so that the parent knows which case a crash or
a hang belongs to.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import BackendIsNotSupposedToImplementIt, Runner

from autosched import onnx_backend
from sketch.errors import AutoschedError


def node_cases() -> list[TestCase]:
    """All single-operator cases of the installed onnx package, in its own order."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # cases compute with overflows on purpose
        return list(load_model_tests(kind="node"))


def run_case(case: TestCase, threads: int) -> dict[str, Any]:
    """Compile the case's model, run all its data sets, compare with what onnx expects."""
    start = time.perf_counter()
    try:
        outcome, reason = _outcome(case, threads)
    except BackendIsNotSupposedToImplementIt as error:
        outcome, reason = "unsupported", str(error)
    except AutoschedError as error:
        outcome, reason = "error", str(error)
    except AssertionError as error:
        outcome, reason = "wrong", str(error)
    except Exception as error:  # any other exception is a bug, and one of the results
        outcome, reason = "crash", f"{type(error).__name__}: {error}"
    seconds = time.perf_counter() - start
    return {"name": case.name, "outcome": outcome, "reason": reason[:600], "seconds": seconds}


def _outcome(case: TestCase, threads: int) -> tuple[str, str]:
    compiled = onnx_backend.prepare(case.model, "CPU", threads=threads)
    for data_set in case.data_sets:
        inputs, expected = ([_array(value) for value in side] for side in data_set)
        outputs = compiled.run(inputs)
        for wanted, found in zip(expected, outputs, strict=True):
            Runner.assert_similar_outputs([wanted], [found], case.rtol, _atol(case, wanted))
    assert compiled.module is not None
    program = compiled.module.program
    on_host = [step.info.op for step in program.host_steps]
    if on_host:
        return "host", "+".join(dict.fromkeys(on_host))
    return "native", f"{len(program.steps)} kernels"


def _atol(case: TestCase, wanted: Any) -> float:
    """The case's own, or what the expected numbers are known to: they are of float32 themselves,
    where terms cancel with the rounding error of the largest.
    """
    if not isinstance(wanted, np.ndarray) or wanted.dtype != np.float32:
        return float(case.atol)
    finite = np.abs(wanted[np.isfinite(wanted)])
    return max(float(case.atol), float(np.finfo(np.float32).eps * finite.max(initial=0.0)))


def _array(value: Any) -> Any:
    """Some cases hold their data as tensors of the file format."""
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value


def main() -> None:
    """Run the cases ``first`` to ``last``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", help="part of the name")
    arguments = parser.parse_args()
    cases = node_cases()
    warnings.simplefilter("ignore")
    for number in range(arguments.first, min(arguments.last, len(cases))):
        if arguments.only not in cases[number].name:
            continue
        _write({"case": number, "name": cases[number].name})
        _write({"case": number} | run_case(cases[number], arguments.threads))


def _write(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
