"""Nodes that become host operators: which results have static types, and the function itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from autosched.graph.ops.base import MAX_VALUE_BYTES, TensorType
from autosched.graph.ops.host import HostFunction
from autosched.host.evaluator import PROBED, HostError, HostEvaluator
from autosched.host.node_names import read_names, walk
from autosched.onnx.importer.domains import DEFAULT_DOMAINS
from autosched.onnx.importer.open_shapes import open_shapes
from autosched.onnx.importer.piece import (
    Arrays,
    Piece,
    Setting,
    Types,
    inferred_types,
    is_consistent,
    make_piece,
)
from autosched.onnx.importer.randomness import random_operator
from autosched.onnx.importer.reference_gaps import reference_gap
from autosched.onnx.importer.site import UnsupportedError
from autosched.system.element_types import element_type
from sketch.lang.dtypes import BOOL, is_float

_PROBE_BYTES: Final = 1 << 22
_PROBE_SEEDS: Final = (0, 1, 2)
# Inputs as different as the nodes take them: numbers may be positions in short axes.
_PROBE_SPANS: Final = (9, 4, 2, 1)
_PROBE_LOOPS: Final = 1000
_FIRST_PLAIN_SCAN: Final = 9  # the opset that took the batch dimension away


@dataclass(frozen=True, slots=True)
class KnownResults:
    """What is known of results.

    Attributes:
        types: by name, of those that are tensors of static shape.
        probed: names of those of which evaluations on a few inputs are all that is known.
    """

    types: dict[str, TensorType]
    probed: frozenset[str]


def static_outputs(
    nodes: Sequence[onnx.NodeProto],
    wanted: Sequence[str],
    arrays: Arrays,
    types: Types,
    setting: Setting,
) -> KnownResults:
    """The types of those ``wanted`` results that are tensors of static shape.

    Known from onnx's inference, from what the model states, or else from evaluating the nodes on
    a few inputs; what depends on data there, or as an operator is defined, or is no tensor, is left
    out.

    Args:
        nodes: in topological order.
        wanted: names of results.
        arrays: constants known so far, by name.
        types: types of values known so far, by name.
        setting: what all pieces of the model share.

    Raises:
        UnsupportedError: onnx cannot evaluate the nodes, or not rightly, or a result is random.
    """
    drawn = random_operator(nodes, arrays)
    if drawn is not None:
        raise UnsupportedError(f"{drawn} draws new random numbers in each run")
    if any(node.op_type == "Scan" for node in walk(nodes)) and setting.opset < _FIRST_PLAIN_SCAN:
        raise UnsupportedError("Scan works on batches in this opset, onnx cannot evaluate that")
    gap = reference_gap(nodes, setting.opset)
    if gap is not None:
        raise UnsupportedError(gap)
    piece = make_piece(nodes, wanted, arrays, types, setting)
    evaluator = _evaluator(piece)
    known = inferred_types(piece.model)
    probed: dict[str, TensorType] = {}
    known = {name: setting.inferred[name] for name in wanted if name in setting.inferred} | known
    unknown = [name for name in wanted if name not in known]
    known = {name: setting.promised[name] for name in unknown if name in setting.promised} | known
    if any(name not in known for name in unknown):
        found = _probed(piece, evaluator, types)
        probed = {name: kind for name, kind in found.items() if name not in known}
    elif unknown:
        _check_evaluation(piece, evaluator, types)
    known |= probed
    types_found = {name: known[name] for name in wanted if name in known}
    for name, kind in types_found.items():
        if kind.size_bytes > MAX_VALUE_BYTES:
            raise UnsupportedError(f"its output {name!r} needs {kind.size_bytes:,} bytes")
    return KnownResults(types_found, frozenset(probed))


def is_impossible(node: onnx.NodeProto, arrays: Arrays, types: Types, setting: Setting) -> bool:
    """Whether nothing can compute a node for the types of its inputs, whatever their elements are.

    Only where onnx finds the types inconsistent, and its evaluation fails for all that is tried.

    Args:
        node: the ONNX node.
        arrays: constants known so far, by name.
        types: types of values known so far, by name.
        setting: what all pieces of the model share.
    """
    known = all(name in arrays or name in types for name in read_names(node))
    if node.domain not in DEFAULT_DOMAINS or not known:
        return False
    piece = make_piece([node], [name for name in node.output if name], arrays, types, setting)
    kinds = [types[name] for name in piece.inputs]
    if is_consistent(piece.model) or not _is_quick(piece, kinds):
        return False
    try:
        evaluator = _evaluator(piece)
    except UnsupportedError:
        return False  # the operator is not known, which says nothing of the types
    return all(_fails(evaluator, kinds, seed) for seed in _PROBE_SEEDS)


def host_function(
    nodes: Sequence[onnx.NodeProto],
    outputs: KnownResults,
    arrays: Arrays,
    types: Types,
    setting: Setting,
) -> tuple[HostFunction, tuple[str, ...]]:
    """The function that computes the outputs, and the values that it reads.

    Args:
        nodes: in topological order.
        outputs: its results.
        arrays: constants known so far, by name.
        types: types of values known so far, by name.
        setting: what all pieces of the model share.
    """
    piece = make_piece(nodes, tuple(outputs.types), arrays, types, setting)
    for info in piece.model.graph.output:
        info.doc_string = PROBED if info.name in outputs.probed else ""
    function = HostFunction(
        piece.operator,
        piece.serialized(),
        tuple(types[name] for name in piece.inputs),
        tuple(outputs.types.values()),
    )
    return function, piece.inputs


def _evaluator(piece: Piece) -> HostEvaluator:
    try:
        return HostEvaluator(piece.operator, piece.serialized())
    except HostError as error:
        raise UnsupportedError(error.what) from error


def _check_evaluation(piece: Piece, evaluator: HostEvaluator, types: Types) -> None:
    """Raise UnsupportedError if what only the model has a type for fails on every input tried.

    Not where integers or booleans are among the inputs: they may be shapes, indices or encoded
    data, of which random ones prove nothing.
    """
    kinds = [types[name] for name in piece.inputs]
    if not _is_quick(piece, kinds) or not all(is_float(kind.dtype) for kind in kinds):
        return
    for seed in _PROBE_SEEDS:
        try:
            _evaluated(evaluator, kinds, seed)
        except HostError as error:
            failure = error
        else:
            return
    raise UnsupportedError(failure.what)


def _probed(piece: Piece, evaluator: HostEvaluator, types: Types) -> dict[str, TensorType]:
    """Types that are the same for several inputs, of what no operator makes depend on them."""
    kinds = [types[name] for name in piece.inputs]
    open_names = open_shapes(piece.model.graph.node, piece.inputs)
    if not _is_quick(piece, kinds) or open_names.issuperset(piece.outputs):
        return {}
    found: list[dict[str, TensorType]] = []
    for seed in _PROBE_SEEDS:
        try:
            values = _evaluated(evaluator, kinds, seed)
        except HostError:
            return {}
        found.append(_tensor_types(piece.outputs, values))
    same = {n: kind for n, kind in found[0].items() if all(f.get(n) == kind for f in found)}
    return {name: kind for name, kind in same.items() if name not in open_names}


def _evaluated(evaluator: HostEvaluator, kinds: Sequence[TensorType], seed: int) -> list[Any]:
    """Results on inputs that differ as far as the nodes take them.

    Raises:
        HostError: they take none.
    """
    for span in _PROBE_SPANS:
        try:
            return evaluator.raw(_samples(kinds, seed, span))
        except HostError as error:
            failure = error
    raise failure


def _fails(evaluator: HostEvaluator, kinds: Sequence[TensorType], seed: int) -> bool:
    try:
        _evaluated(evaluator, kinds, seed)
    except HostError:
        return True
    return False


def _is_quick(piece: Piece, inputs: Sequence[TensorType]) -> bool:
    return _ends_soon(piece) and sum(kind.size_bytes for kind in inputs) <= _PROBE_BYTES


def _ends_soon(piece: Piece) -> bool:
    """Whether all loops have a small number of iterations, so that evaluating takes no time."""
    counts = {t.name: t for t in piece.model.graph.initializer}
    for node in walk(piece.model.graph.node):
        if node.op_type != "Loop":
            continue
        count = node.input[0]
        constant = count in counts and numpy_helper.to_array(counts[count]).max() <= _PROBE_LOOPS
        if not constant and count not in piece.inputs:
            return False
    return True


def _tensor_types(names: Sequence[str], values: Sequence[Any]) -> dict[str, TensorType]:
    arrays = {
        name: np.asarray(value)
        for name, value in zip(names, values, strict=True)
        if isinstance(value, np.ndarray | np.generic)
    }
    return {
        name: TensorType(array.shape, "object" if array.dtype.kind in "US" else str(array.dtype))
        for name, array in arrays.items()
    }


def _samples(kinds: Sequence[TensorType], seed: int, span: int) -> list[NDArray[Any]]:
    """Unordered numbers: floats of both signs, and whole ones below ``span``.

    The first ``span`` whole ones are all different, also where they belong to several inputs.
    """
    rng = np.random.default_rng(seed)
    order, start = rng.permutation(span), 0
    samples = []
    for kind in kinds:
        values: NDArray[Any]
        if is_float(kind.dtype):
            values = rng.standard_normal(kind.shape) * (span - 1)
        elif kind.dtype == BOOL:
            values = rng.integers(0, 2, kind.shape)
        else:
            values = order[(start + np.arange(kind.size)) % span].reshape(kind.shape)
            start += kind.size
        samples.append(_cast(np.asarray(values), kind.dtype))
    return samples


def _cast(values: NDArray[Any], dtype: str) -> NDArray[Any]:
    if dtype == "object":
        return values.astype(str).astype(object)
    return values.astype(element_type(dtype))
