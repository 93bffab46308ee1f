"""What evaluates a piece of an ONNX model on the host: onnxruntime, or onnx's reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from autosched.host.domains import CONTRIB, LEARNED
from autosched.host.sorting import first_in_order
from autosched.system.signal_handlers import raised_by_handler

REFERENCE: Final = "onnx's reference evaluator"
ONNXRUNTIME: Final = "onnxruntime"

# Element types of which onnxruntime takes and returns plain NumPy arrays.
_EXCHANGED: Final = frozenset(
    f"tensor({name})"
    for name in (
        "bool",
        "double",
        "float",
        "float16",
        "int8",
        "int16",
        "int32",
        "int64",
        "string",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
    )
)
# Operators that onnxruntime computes as onnx defines them, to the bit but for the order of sums.
# Of others its results differ from the standard's examples (DFT, Resize, MaxUnpool, Attention ...).
_EXACT: Final = frozenset(
    (
        *("Abs", "Add", "And", "ArgMax", "ArgMin", "Cast", "Compress", "Concat", "Constant"),
        *("ConstantOfShape", "Div", "Equal", "Expand", "Flatten", "Gather", "GatherElements"),
        *("GatherND", "Greater", "GreaterOrEqual", "Identity", "If", "Less", "LessOrEqual", "Loop"),
        *("Mul", "Neg", "NonMaxSuppression", "NonZero", "Not", "OneHot", "Or", "Range", "Relu"),
        *("Reshape", "ReverseSequence", "Scan", "Scatter", "ScatterElements", "ScatterND", "Shape"),
        *("Size", "Slice", "Split", "Squeeze", "Sub", "Tile", "TopK", "Transpose", "Trilu"),
        *("Unique", "Unsqueeze", "Where", "Xor"),
    )
)
# Of these, only while no element is NaN, which it passes over or puts anywhere.
_ORDERING: Final = frozenset(("ArgMax", "ArgMin", "TopK", "Unique"))
_MAKES_NAN: Final = frozenset(("Add", "Div", "Mul", "Sub"))  # of numbers that are none
# Of the operators of ai.onnx.ml: those that onnx's reference has right.  Of the others it has wrong
# numbers (classes that no leaf votes for, probabilities of support vectors, integers ...).
_RIGHT_LEARNED: Final = frozenset(
    (
        *("ArrayFeatureExtractor", "Binarizer", "FeatureVectorizer", "Imputer", "LabelEncoder"),
        *("LinearRegressor", "OneHotEncoder", "SVMRegressor"),
    )
)
# What the reference raises for types that an operator of it was not written for.
_LACKING: Final = (RuntimeError, TypeError)
_REFUSED: Final = "not supported"  # what onnxruntime says of a type that a kernel does not take
_STRING: Final = 8  # onnx's number of that element type
_SILENT: Final = 4  # onnxruntime's severity "fatal": errors are raised, not printed as well


class HostEngine(Protocol):
    """A piece of a model, ready to be evaluated any number of times."""

    @property
    def name(self) -> str:
        """What evaluates, for people."""

    @property
    def input_names(self) -> Sequence[str]:
        """The piece's inputs, in order."""

    def evaluate(self, feeds: Mapping[str, NDArray[Any]]) -> list[Any]:
        """All outputs; raises whatever the engine raises."""


class ReferenceEngine:
    """onnx's own evaluator, in Python: knows nearly everything, slowly."""

    name: str = REFERENCE

    def __init__(self, payload: bytes) -> None:
        """Raises ImportError without onnx, and what onnx raises for operators it does not have."""
        import onnx
        from onnx.reference import ReferenceEvaluator

        from autosched.host.operators.loop import Loop
        from autosched.host.operators.optional import (
            Optional,
            OptionalGetElement,
            OptionalHasElement,
        )
        from autosched.host.operators.pad import Pad
        from autosched.host.operators.scan import Scan
        from autosched.host.operators.scatter import Scatter

        self._payload = payload
        self._other: HostEngine | None = None  # once the reference lacked something
        own = [Loop, Optional, OptionalGetElement, OptionalHasElement, Pad, Scan, Scatter]
        self._evaluator = ReferenceEvaluator(onnx.load_from_string(payload), new_ops=own)
        self.input_names: Sequence[str] = list(self._evaluator.input_names)

    def evaluate(self, feeds: Mapping[str, NDArray[Any]]) -> list[Any]:
        """All outputs as onnx has them: arrays, lists, or None; by onnxruntime what onnx lacks."""
        try:
            with np.errstate(all="ignore"):
                return list(self._evaluator.run(None, dict(feeds)))
        except _LACKING as error:
            if raised_by_handler(error):
                raise
            try:
                self._other = self._other or OnnxruntimeEngine(self._payload)
            except Exception:  # as below
                raise error from None
            return self._other.evaluate(feeds)


class OnnxruntimeEngine:
    """A session of onnxruntime on the calling thread: no threads of its own, so that it survives a
    fork and leaves the cores to the kernels.
    """

    name: str = ONNXRUNTIME

    def __init__(self, payload: bytes) -> None:
        """Raises ImportError without onnxruntime, and what it raises for models that it does not
        know; TypeError for element types that NumPy has no arrays of.
        """
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = _SILENT
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        self._session = onnxruntime.InferenceSession(
            payload, options, providers=["CPUExecutionProvider"]
        )
        self._run_options = onnxruntime.RunOptions()
        self._run_options.log_severity_level = _SILENT
        ends = (*self._session.get_inputs(), *self._session.get_outputs())
        foreign = sorted({end.type for end in ends} - _EXCHANGED)
        if foreign:
            raise TypeError(f"no NumPy arrays of {', '.join(foreign)}")
        self.input_names: Sequence[str] = [end.name for end in self._session.get_inputs()]

    def evaluate(self, feeds: Mapping[str, NDArray[Any]]) -> list[Any]:
        """All outputs as arrays."""
        return list(self._session.run(None, dict(feeds), self._run_options))


class PatientEngine:
    """A session of onnxruntime, but onnx's reference once a run shows that it lacks a type.

    It makes sessions of some operators on types that their kernels refuse: sums that are scattered
    into 16-bit floats, for instance.
    """

    def __init__(self, payload: bytes) -> None:
        """Raises what a session of onnxruntime raises."""
        self._payload = payload
        self._engine: HostEngine = OnnxruntimeEngine(payload)
        self.input_names: Sequence[str] = self._engine.input_names

    @property
    def name(self) -> str:
        """Of the engine that evaluates from now on."""
        return self._engine.name

    def evaluate(self, feeds: Mapping[str, NDArray[Any]]) -> list[Any]:
        """All outputs; what onnxruntime raised where the reference lacks the type, too."""
        try:
            return self._engine.evaluate(feeds)
        except Exception as error:
            if self._engine.name != ONNXRUNTIME or _REFUSED not in str(error):
                raise
            found = self._by_reference(feeds)
            if found is None:
                raise
            return found

    def _by_reference(self, feeds: Mapping[str, NDArray[Any]]) -> list[Any] | None:
        try:
            engine = ReferenceEngine(self._payload)
            found = engine.evaluate(feeds)
        except Exception as error:
            if raised_by_handler(error):
                raise
            return None
        self._engine = engine
        return found


class OrderingEngine:
    """A session of onnxruntime, but onnx's reference for inputs that contain NaN."""

    name: str = ONNXRUNTIME

    def __init__(self, payload: bytes) -> None:
        """Raises what both of them raise."""
        self._fast, self._exact = OnnxruntimeEngine(payload), ReferenceEngine(payload)
        self.input_names: Sequence[str] = self._fast.input_names

    def evaluate(self, feeds: Mapping[str, NDArray[Any]]) -> list[Any]:
        """All outputs, in which NaN is the largest number, or the position of both extremes."""
        engine = self._exact if any(map(_has_nan, feeds.values())) else self._fast
        return engine.evaluate(feeds)


_Attributes = Mapping[str, Any]
_Results = tuple[NDArray[Any], ...]
# The results of a node, from its attributes and inputs; None: another engine is to evaluate it.
_Compute = Callable[[_Attributes, Sequence[NDArray[Any]]], _Results | None]


class OneNodeEngine:
    """A model of one node that is computed here, unless that leaves it to another engine."""

    def __init__(self, model: Any, compute: _Compute, other: HostEngine) -> None:
        """``other``: evaluates the model where ``compute`` does not."""
        from onnx import helper, numpy_helper

        node = model.graph.node[0]
        self._attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        self._constants = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
        self._inputs = list(node.input)
        self._wanted = [list(node.output).index(value.name) for value in model.graph.output]
        self._compute, self._other = compute, other
        self.input_names: Sequence[str] = other.input_names

    @property
    def name(self) -> str:
        """Of the engine that evaluates the rest."""
        return self._other.name

    def evaluate(self, feeds: Mapping[str, NDArray[Any]]) -> list[Any]:
        """All outputs."""
        given = {**self._constants, **feeds}
        found = self._compute(self._attributes, [given[name] for name in self._inputs])
        if found is None:
            return self._other.evaluate(feeds)
        return [found[index] for index in self._wanted]


def _sorted_rows(attributes: _Attributes, inputs: Sequence[NDArray[Any]]) -> _Results | None:
    """TopK where much of each row is wanted."""
    data, count = inputs
    axis, largest = attributes.get("axis", -1), attributes.get("largest", 1)
    return first_in_order(data, int(count.reshape(-1)[0]), int(axis), bool(largest))


_OF_ONE_NODE: Final[Mapping[str, _Compute]] = {"TopK": _sorted_rows}


def _of_one_node(model: Any, engine: HostEngine) -> HostEngine:
    """What is faster than ``engine`` for some models of one node."""
    nodes = model.graph.node
    found = _OF_ONE_NODE.get(nodes[0].op_type) if len(nodes) == 1 else None
    if found is None or len(nodes[0].input) < 2:
        return engine
    return OneNodeEngine(model, found, engine)


def _has_nan(array: NDArray[Any]) -> bool:
    return array.dtype.kind == "f" and bool(np.isnan(array).any())


def _holds_nan(model: Any) -> bool:
    """Whether a constant of the model, or of a branch, is NaN."""
    from onnx import numpy_helper

    from autosched.host.node_names import nested_graphs, walk

    nodes = list(walk(model.graph.node))
    graphs = [model.graph, *(graph for node in nodes for graph in nested_graphs(node))]
    tensors = [tensor for graph in graphs for tensor in graph.initializer]
    tensors += [a.t for node in nodes for a in node.attribute if a.HasField("t")]
    return any(_has_nan(numpy_helper.to_array(tensor)) for tensor in tensors)


def _makes_texts(node: Any) -> bool:
    """Whether numbers become strings, which onnxruntime writes with eight digits."""
    wanted = (a.i for a in node.attribute if a.name == "to")
    return node.op_type == "Cast" and _STRING in wanted


def output_description(payload: bytes, index: int) -> str:
    """What a serialized model says of one of its outputs."""
    import onnx

    return str(onnx.load_from_string(payload).graph.output[index].doc_string)


def exact_engine(payload: bytes) -> HostEngine:
    """What defines the results of a model: onnx's reference, or, for a model that has an operator
    of ``ai.onnx.ml`` or of onnxruntime's own, onnxruntime, which then runs the other nodes of the
    model as well.  Where it cannot run the model, the reference does, if it has those operators
    right.

    Raises:
        ImportError: onnx is not installed.
        Exception: whatever the engine raises for operators that it does not have.
    """
    import onnx

    from autosched.host.node_names import walk

    nodes = list(walk(onnx.load_from_string(payload).graph.node))
    learned = {node.op_type for node in nodes if node.domain == LEARNED}
    own = {f"{CONTRIB}.{node.op_type}" for node in nodes if node.domain == CONTRIB}
    if not learned and not own:
        return ReferenceEngine(payload)
    try:
        return OnnxruntimeEngine(payload)
    except Exception as error:  # not installed, or an operator or type that it does not have
        wrong = sorted(own | (learned - _RIGHT_LEARNED))
        if not wrong:
            return ReferenceEngine(payload)
        raise RuntimeError(f"{', '.join(wrong)} needs onnxruntime: {error}") from error


def fastest_engine(payload: bytes) -> HostEngine:
    """A session of onnxruntime where it is installed and computes what onnx defines, else what
    defines the results.

    Raises:
        ImportError: onnx is not installed.
        Exception: whatever onnx raises for operators that it does not have.
    """
    import onnx

    from autosched.host.node_names import walk

    model = onnx.load_from_string(payload)
    nodes = list(walk(model.graph.node))
    if not all(node.op_type in _EXACT and not node.domain for node in nodes):
        return exact_engine(payload)
    if any(map(_makes_texts, nodes)):
        return ReferenceEngine(payload)
    ordering = any(node.op_type in _ORDERING for node in nodes)
    if ordering and (_holds_nan(model) or any(n.op_type in _MAKES_NAN for n in nodes)):
        return ReferenceEngine(payload)
    engine: HostEngine
    try:
        engine = OrderingEngine(payload) if ordering else PatientEngine(payload)
    except Exception:  # not installed, too old, or an operator or type that it does not have
        engine = ReferenceEngine(payload)
    return _of_one_node(model, engine)
