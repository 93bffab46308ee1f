"""A graph as it grows: tensors of known type, nodes, constants; and as a model of onnx.

JSON: ``{"inputs": [[name, dtype, shape]], "constants": [[name, dtype, shape, numbers]], "nodes":
[[operator, inputs, outputs, attributes]], "outputs": [...], "values": seed, "threads": n}``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper, shape_inference

from campaign.verdict import Json

OPSET: Final = 21
_IR: Final = 10
_MOST_ELEMENTS: Final = 20_000
WHOLE_RANGE: Final = "q"  # the first letter of inputs of all integers that their type has
DTYPES: Final = ("float32", "float64", "float16", "int32", "int64", "int8", "uint8", "bool")


class Tensor(NamedTuple):
    """A value of the graph; ``exact`` where every implementation finds the same bits."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    exact: bool


class Rejected(Exception):
    """The node cannot be added: no tensor fits, or onnx finds it invalid."""


@dataclass(slots=True)
class Graph:
    """The graph so far."""

    rng: Random
    inputs: list[list[Any]] = field(default_factory=list)
    constants: list[list[Any]] = field(default_factory=list)
    nodes: list[list[Any]] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)

    def new_input(self, dtype: str, shape: Sequence[int], whole_range: bool = False) -> Tensor:
        """One more input; of small integers, or of all that its type has."""
        first = WHOLE_RANGE if whole_range else "x"
        tensor = Tensor(f"{first}{len(self.inputs)}", dtype, tuple(shape), True)
        self.inputs.append([tensor.name, dtype, list(shape)])
        self.tensors.append(tensor)
        return tensor

    def constant(self, dtype: str, values: Any) -> Tensor:
        """An initializer."""
        array = np.asarray(values)
        tensor = Tensor(f"c{len(self.constants)}", dtype, array.shape, True)
        self.constants.append([tensor.name, dtype, list(array.shape), array.ravel().tolist()])
        return tensor

    def weights(self, shape: Sequence[int], dtype: str = "float32") -> Tensor:
        """An initializer of small numbers."""
        size = int(np.prod(shape, dtype=np.int64))
        if dtype.startswith("float"):
            values = [self.rng.randrange(-32, 33) / 32 for _ in range(size)]
        else:
            low = 0 if dtype == "uint8" else -4
            values = [self.rng.randrange(low, 5) for _ in range(size)]
        return self.constant(dtype, np.array(values).reshape(tuple(shape)))

    def pick(
        self,
        dtypes: Sequence[str] = ("float32",),
        ranks: Sequence[int] = (0, 1, 2, 3, 4),
        exact: bool = False,
        some: bool = False,
    ) -> Tensor:
        """A tensor, preferably a late one; a new input where none fits.

        ``exact``: one with known bits; ``some``: one that has elements.
        """
        fitting = [
            tensor
            for tensor in self.tensors
            if tensor.dtype in dtypes
            and len(tensor.shape) in ranks
            and (tensor.exact or not exact)
            and (not some or 0 not in tensor.shape)
        ]
        if fitting and self.rng.random() < 0.9:
            return fitting[-1 - min(int(self.rng.expovariate(0.7)), len(fitting) - 1)]
        rank = self.rng.choice([r for r in ranks if r <= 4] or list(ranks))
        return self.new_input(self.rng.choice(list(dtypes)), draw_shape(self.rng, rank, some))

    def like(self, tensor: Tensor, exact: bool = False) -> Tensor:
        """A tensor that broadcasts with ``tensor``, of its dtype."""
        found = [t for t in self.tensors if t.dtype == tensor.dtype and t.shape == tensor.shape]
        found = [t for t in found if t.exact or not exact]
        if found and self.rng.random() < 0.5:
            return self.rng.choice(found)
        shape = [e if self.rng.random() < 0.75 else 1 for e in tensor.shape]
        shape = shape[self.rng.choice((0, 0, 0, 1)) if shape else 0 :]
        if self.rng.random() < 0.5 or tensor.dtype == "bool":
            return self.new_input(tensor.dtype, shape)
        return self.weights(shape, tensor.dtype)

    def add(
        self,
        operator: str,
        inputs: Sequence[Tensor | None],
        outputs: int = 1,
        exact: bool = False,
        **attributes: Any,
    ) -> Tensor:
        """Add a node whose types onnx can infer; the first output.

        Raises:
            Rejected: the node is invalid, or its results are too large.
        """
        names = [f"t{len(self.tensors)}_{n}" for n in range(outputs)]
        node = [operator, ["" if t is None else t.name for t in inputs], names, attributes]
        made = self._infer(node, [t for t in inputs if t is not None])
        keeps = exact and all(t.exact for t in inputs if t is not None)
        tensors = [
            Tensor(n, d, s, keeps or not d.startswith("float"))
            for n, (d, s) in zip(names, made, strict=True)
        ]
        self.nodes.append(node)
        self.tensors += tensors
        return tensors[0]

    def _infer(self, node: Any, inputs: Sequence[Tensor]) -> list[tuple[str, tuple[int, ...]]]:
        constants = [c for c in self.constants if c[0] in node[1]]
        known = {c[0] for c in constants}
        places = [[t.name, t.dtype, t.shape] for t in dict.fromkeys(inputs) if t.name not in known]
        model = model_of({"inputs": places, "constants": constants, "nodes": [node],
                          "outputs": node[2]})  # fmt: skip
        try:
            inferred = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        except Exception as error:
            raise Rejected(str(error)) from error
        return [_type(info) for info in inferred.graph.output]

    def to_json(self) -> Json:
        """The graph; what nothing reads is an output."""
        read = {name for node in self.nodes for name in node[1]}
        outputs = [name for node in self.nodes for name in node[2] if name and name not in read]
        return {
            "inputs": [i for i in self.inputs if i[0] in read],
            "constants": [c for c in self.constants if c[0] in read],
            "nodes": self.nodes,
            "outputs": outputs,
        }


def _type(info: onnx.ValueInfoProto) -> tuple[str, tuple[int, ...]]:
    tensor = info.type.tensor_type
    if not tensor.elem_type or not tensor.HasField("shape"):
        raise Rejected("an unknown type")
    if any(not d.HasField("dim_value") for d in tensor.shape.dim):
        raise Rejected("an unknown extent")
    shape = tuple(d.dim_value for d in tensor.shape.dim)
    if int(np.prod(shape, dtype=np.int64)) > _MOST_ELEMENTS or len(shape) > 6:
        raise Rejected("too large")
    dtype = str(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    if dtype not in DTYPES:
        raise Rejected(dtype)
    return dtype, shape


def draw_shape(rng: Random, rank: int, some: bool = False) -> list[int]:
    """Extents: small, primes, 1, and sometimes 0."""
    pool = (
        (1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 17) if rank > 2 else (1, 2, 3, 5, 8, 13, 16, 17, 31, 37)
    )
    shape = [rng.choice(pool) for _ in range(rank)]
    if rank and not some and rng.random() < 0.03:
        shape[rng.randrange(rank)] = 0
    return shape


def model_of(graph: Json) -> onnx.ModelProto:
    """The model; output types are left to inference."""
    kind = helper.np_dtype_to_tensor_dtype
    body = helper.make_graph(
        [helper.make_node(op, ins, outs, **attrs) for op, ins, outs, attrs in graph["nodes"]],
        "campaign",
        [
            helper.make_tensor_value_info(name, kind(np.dtype(dtype)), shape)
            for name, dtype, shape in graph["inputs"]
        ],
        [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in graph["outputs"]],
        [
            numpy_helper.from_array(np.array(values, np.dtype(dtype)).reshape(shape), name)
            for name, dtype, shape, values in graph["constants"]
        ],
    )
    opsets = [helper.make_opsetid("", OPSET)]
    return helper.make_model(body, opset_imports=opsets, ir_version=_IR)


def typed_model(graph: Json) -> onnx.ModelProto:
    """The model with the types of all values."""
    return shape_inference.infer_shapes(model_of(graph), strict_mode=True, data_prop=True)


def values_of(graph: Json) -> dict[str, NDArray[Any]]:
    """An array for every input."""
    found: dict[str, NDArray[Any]] = {}
    for place, (name, dtype, shape) in enumerate(graph["inputs"]):
        rng = np.random.default_rng([graph["values"], place])
        if dtype == "bool":
            values: Any = rng.random(shape) < 0.6
        elif dtype.startswith("float"):
            values = rng.integers(-256, 257, shape) / 128
        elif name.startswith(WHOLE_RANGE):
            values = _whole_range(rng, dtype, shape)
        else:
            values = rng.integers(0 if dtype == "uint8" else -7, 8, shape)
        found[name] = np.asarray(values, np.dtype(dtype))
    return found


def _whole_range(rng: np.random.Generator, dtype: str, shape: Sequence[int]) -> NDArray[Any]:
    """Integers of a type; of four arrays one has the extremes alone."""
    limits = np.iinfo(dtype)
    if rng.integers(4) == 0:
        return rng.choice([limits.min, limits.max][: rng.integers(1, 3)], shape)
    return rng.integers(limits.min, limits.max, shape, endpoint=True)
