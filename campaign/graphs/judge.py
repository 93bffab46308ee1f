"""The verdict on a graph: onnxruntime's results, onnx's own where they differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import autosched as asd
from campaign.graphs.graph import typed_model, values_of
from campaign.part import Mark
from campaign.verdict import Json, Verdict
from sketch.errors import AutoschedError

Arrays = Mapping[str, NDArray[Any]]
_RELATIVE: Final = {"float64": 1e-8, "float32": 2e-4, "float16": 2e-2}
# An input moved by this share may move the results of an ill-conditioned graph as far as ours are.
_NUDGE: Final = 2e-6
_NUDGES_ALLOWED: Final = 50.0


def judge_graph(case: Json, mark: Mark) -> Verdict:
    """Import, compile, run and compare."""
    counts: Counter[str] = Counter(nodes=len(case["nodes"]))
    model = typed_model(case)
    inputs = values_of(case)
    mark("onnxruntime")
    names = case["outputs"]
    expected = _rival(model, inputs, names)
    mark("product")
    try:
        ours = _ours(model, inputs, case["threads"], counts)
    except AutoschedError as error:
        return Verdict("refused", f"{type(error).__name__}: {error}"[:400], dict(counts))
    mark("comparison")
    found = [ours[name] for name in names]
    if expected is None:
        return _confirmed(model, inputs, names, found, counts)
    problem = _differences(names, found, expected)
    if problem is None:
        return Verdict("right", "", dict(counts))
    explanation = _explanation(model, inputs, names, expected, found)
    if explanation is None:
        return Verdict("wrong", problem, dict(counts))
    counts[explanation] += 1
    return Verdict("right", "", dict(counts))


def _confirmed(
    model: onnx.ModelProto,
    inputs: Arrays,
    names: Sequence[str],
    found: Sequence[NDArray[Any]],
    counts: Counter[str],
) -> Verdict:
    """The verdict without onnxruntime; onnx's evaluator alone is wrong too often to condemn."""
    reference = _reference(model, inputs)
    known = reference is not None and _differences(names, found, reference) is None
    counts["judged_by_onnx" if known else "unjudged"] += 1
    return Verdict("right", "", dict(counts))


def _explanation(
    model: onnx.ModelProto,
    inputs: Arrays,
    names: Sequence[str],
    expected: Sequence[NDArray[Any]],
    found: Sequence[NDArray[Any]],
) -> str | None:
    """What excuses results that are not onnxruntime's; None if nothing does."""
    values = _node_by_node(model, inputs)
    for reference in (_reference(model, inputs), values and [values[name] for name in names]):
        if reference and all(
            _differences([name], [ours], [theirs]) is None
            or _differences([name], [ours], [onnx_result]) is None
            for name, ours, theirs, onnx_result in zip(
                names, found, expected, reference, strict=True
            )
        ):
            return "judged_by_onnx"
    if _ill_conditioned(model, inputs, names, expected, found):
        return "ill_conditioned"
    # onnxruntime's maxima and minima skip NaN or not, as it comes; ours are NaN (docs/import.md).
    met_nan = values is not None and any(
        array.dtype.kind == "f" and bool(np.isnan(array).any()) for array in values.values()
    )
    return "nan" if met_nan else None


def _ours(
    model: onnx.ModelProto, inputs: Arrays, threads: int, counts: Counter[str]
) -> Mapping[str, NDArray[Any]]:
    module = asd.compile(asd.from_onnx(model), threads=threads)
    counts["kernels"] += len(module.program.steps)
    counts["host_steps"] += len(module.program.host_steps)
    return module.run(dict(inputs))


def _rival(
    model: onnx.ModelProto, inputs: Arrays, names: Sequence[str]
) -> list[NDArray[Any]] | None:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return list(session.run(list(names), dict(inputs)))
    except Exception:  # whatever it cannot do
        return None


def _reference(model: onnx.ModelProto, inputs: Arrays) -> list[NDArray[Any]] | None:
    try:
        with np.errstate(all="ignore"):
            return [np.asarray(a) for a in ReferenceEvaluator(model).run(None, dict(inputs))]
    except Exception:  # whatever it cannot do
        return None


def _node_by_node(model: onnx.ModelProto, inputs: Arrays) -> dict[str, NDArray[Any]] | None:
    """All values, node by node by onnx's evaluator or else by onnxruntime; None if both fail."""
    graph = model.graph
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    values.update(inputs)
    for node in graph.node:
        read = [name for name in dict.fromkeys(node.input) if name]
        written = [name for name in node.output if name]
        piece = helper.make_model(
            helper.make_graph(
                [node],
                "piece",
                [_described(name, values[name]) for name in read],
                [helper.make_empty_tensor_value_info(name) for name in written],
            ),
            opset_imports=model.opset_import,
            ir_version=model.ir_version,
        )
        feeds = {name: values[name] for name in read}
        results = _reference(piece, feeds) or _rival(piece, feeds, written)
        if results is None:
            return None
        values.update(zip(written, results, strict=True))
    return values


def _described(name: str, array: NDArray[Any]) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, array.shape)


def _differences(
    names: Sequence[str], found: Sequence[NDArray[Any]], wanted: Sequence[NDArray[Any]]
) -> str | None:
    """The first difference as text."""
    for name, ours, theirs in zip(names, found, wanted, strict=True):
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            return f"{name} is {ours.dtype}{ours.shape}, not {theirs.dtype}{theirs.shape}"
        wrong = ~_close(ours, theirs)
        if wrong.any():
            place = tuple(int(i) for i in np.argwhere(wrong)[0])
            return (
                f"{name}{list(place)} is {ours[place]!s}, expected {theirs[place]!s}; "
                f"{int(wrong.sum())} of {wrong.size} differ"
            )
    return None


def _close(ours: NDArray[Any], theirs: NDArray[Any]) -> NDArray[Any]:
    if str(ours.dtype) not in _RELATIVE:
        return np.asarray(ours == theirs)
    with np.errstate(all="ignore"):
        a, b = ours.astype(np.float64), theirs.astype(np.float64)
        relative = _RELATIVE[str(ours.dtype)]
        finite = np.abs(b[np.isfinite(b)])
        scale = float(finite.max()) if finite.size else 0.0
        near = np.abs(a - b) <= relative * (np.abs(b) + 0.1 * min(scale, 1e30)) + 1e-6
        return np.asarray(near | (a == b) | (np.isnan(a) & np.isnan(b)))


def _ill_conditioned(
    model: onnx.ModelProto,
    inputs: Arrays,
    names: Sequence[str],
    expected: Sequence[NDArray[Any]],
    found: Sequence[NDArray[Any]],
) -> bool:
    """Whether inputs that are a little different explain results that are so different."""
    moved = [np.zeros(e.shape) for e in expected]
    for sign in (1, -1):
        nudged = {
            n: a * np.asarray(1 + sign * _NUDGE, a.dtype) if a.dtype.kind == "f" else a
            for n, a in inputs.items()
        }
        results = _rival(model, nudged, names)
        if results is None:
            return False
        with np.errstate(all="ignore"):
            for place, (result, old) in enumerate(zip(results, expected, strict=True)):
                difference = np.abs(result.astype(np.float64) - old.astype(np.float64))
                moved[place] = np.maximum(
                    moved[place], np.where(np.isnan(difference), np.inf, difference)
                )
    with np.errstate(all="ignore"):
        return all(
            a.shape == b.shape
            and bool(
                (
                    _close(a, b)
                    | (np.abs(a.astype(float) - b.astype(float)) <= _NUDGES_ALLOWED * m)
                    | np.isinf(m)
                ).all()
            )
            for a, b, m in zip(found, expected, moved, strict=True)
        )
