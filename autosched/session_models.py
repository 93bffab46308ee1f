"""The models behind ``InferenceSession``: compiled ones, and those compiled when shapes come."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Protocol

from autosched.network_source import PathText, from_onnx
from autosched.onnx.type_names import onnx_type
from autosched.runtime.errors import InputError
from autosched.runtime.inputs import check_names
from autosched.runtime.module import Module
from autosched.system.optional_packages import require
from autosched.system.user_warnings import notify

if TYPE_CHECKING:
    from autosched.graph.ir import Network
    from autosched.runtime.program import TensorSpec

Shapes = tuple[tuple[int, ...], ...]

# Of a model with open shapes; compiling takes seconds, and each module has its own weights.
_MOST_SHAPES: Final = 16


@dataclass(frozen=True, slots=True)
class NodeArg:
    """An input or output of a model.

    Attributes:
        name: of the tensor.
        type: in ONNX's words, ``tensor(float)``.
        shape: extents; names, or None, where the model leaves them open.
    """

    name: str
    type: str
    shape: list[int | str | None]


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    """What a model says of itself, in ONNX's words; what it does not say is empty.

    Attributes:
        producer_name: the program that made it.
        graph_name: of its graph.
        domain: namespace of the model.
        description: of the model.
        graph_description: of its graph.
        version: of the model.
        custom_metadata_map: texts by name, such as the names of classes.
    """

    producer_name: str = ""
    graph_name: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = 0
    custom_metadata_map: Mapping[str, str] = field(default_factory=dict)


class SessionModel(Protocol):
    """A model that a session runs.

    Attributes:
        inputs: in order.
        outputs: in order.
        metadata: what it says of itself.
    """

    @property
    def inputs(self) -> Sequence[NodeArg]: ...

    @property
    def outputs(self) -> Sequence[NodeArg]: ...

    @property
    def metadata(self) -> ModelMetadata: ...

    def module_for(self, feed: Mapping[str, Any]) -> Module:
        """The module for inputs of these shapes."""


@dataclass(frozen=True, slots=True)
class CompiledModel:
    """A module, whatever shapes it was compiled for."""

    module: Module
    inputs: Sequence[NodeArg]
    outputs: Sequence[NodeArg]
    metadata: ModelMetadata

    @classmethod
    def of(cls, module: Module) -> CompiledModel:
        """With the module's inputs and outputs; extents that its shapes differ in are None."""
        sides = [part.inputs for part in module.modules], [part.outputs for part in module.modules]
        inputs, outputs = ([_node(specs) for specs in zip(*side, strict=True)] for side in sides)
        return cls(module, inputs, outputs, ModelMetadata(graph_name=module.name))

    def module_for(self, feed: Mapping[str, Any]) -> Module:
        """The module, whatever ``feed`` is."""
        return self.module


class OpenModel:
    """A network with open shapes, compiled for each set of shapes when it first comes."""

    def __init__(
        self,
        inputs: Sequence[NodeArg],
        outputs: Sequence[NodeArg],
        metadata: ModelMetadata,
        compiled: Callable[[Mapping[str, Sequence[int]]], Module],
    ) -> None:
        """``compiled``: the module for input shapes by name."""
        self.inputs, self.outputs, self.metadata = inputs, outputs, metadata
        self._names = [arg.name for arg in inputs]
        self._takes = ", ".join(f"{arg.name}: {arg.type} {arg.shape}" for arg in inputs)
        self._compiled = compiled
        self._modules: dict[Shapes, Module] = {}
        self._lock, self._looking = Lock(), Lock()  # while one compiles, the others run

    def module_for(self, feed: Mapping[str, Any]) -> Module:
        """The module for the shapes of ``feed``, compiled where there is none.

        Raises:
            InputError: an input is missing or unknown, or its shape does not fit the model's.
        """
        check_names(self._names, feed, lambda: f"the model takes {self._takes}")
        shapes: Shapes = tuple(tuple(getattr(feed[name], "shape", ())) for name in self._names)
        found = self._known(shapes)
        if found is not None:
            return found
        for arg, shape in zip(self.inputs, shapes, strict=True):
            if not _fits(shape, arg.shape):
                raise InputError(
                    f"shape {shape}, expected {arg.shape}",
                    f"input {arg.name!r}",
                )
        with self._lock:
            found = self._known(shapes)  # another thread may have compiled it meanwhile
            if found is None:
                self._make_room()
                found = self._compiled(dict(zip(self._names, shapes, strict=True)))
                with self._looking:
                    self._modules[shapes] = found
            return found

    def _known(self, shapes: Shapes) -> Module | None:
        """The module for these shapes, which are the last that were used then."""
        with self._looking:
            found = self._modules.pop(shapes, None)
            if found is not None:
                self._modules[shapes] = found
            return found

    def _make_room(self) -> None:
        """Without the shapes that were not used for longest."""
        with self._looking:
            if len(self._modules) < _MOST_SHAPES:
                return
            unused = next(iter(self._modules))
            del self._modules[unused]
        notify([f"more than {_MOST_SHAPES} sets of input shapes: that of {unused} is dropped"])


def _fits(shape: Sequence[int], declared: Sequence[int | str | None]) -> bool:
    """Whether a shape is one of those that a model leaves open; nothing declared: it may be any."""
    if not declared:
        return True
    pairs = zip(shape, declared, strict=False)
    fixed = all(n == m or not isinstance(m, int) for n, m in pairs)
    return fixed and len(shape) == len(declared)


def onnx_model(
    source: PathText | bytes, compiled: Callable[[Network], Module], values: Mapping[str, Any]
) -> SessionModel:
    """An ONNX model: compiled at once where all of its shapes are fixed.

    Args:
        source: path of the file, or its bytes.
        compiled: the module of a network.
        values: of inputs that the session does not have, by name.

    Raises:
        AutoschedError: it cannot be read, or as ``compiled``.
    """
    require("onnx", "InferenceSession", "onnx")
    from autosched.onnx.importer.load import load_model
    from autosched.onnx.importer.shapes import check_known, declared_tensors

    proto = load_model(fspath(source) if isinstance(source, PathLike) else source)
    declared, metadata = declared_tensors(proto), _metadata(proto)
    check_known("values", values, [name for name, *_ in declared[0]])
    taken = [item for item in declared[0] if item[0] not in values]
    inputs, outputs = (
        [NodeArg(name, onnx_type(dtype), list(dims or ())) for name, dtype, dims in side]
        for side in (taken, declared[1])
    )
    if all(dims is not None and all(isinstance(n, int) for n in dims) for *_, dims in taken):
        network = from_onnx(proto, values=values)
        return CompiledModel(compiled(network), inputs, outputs, metadata)
    return OpenModel(
        inputs, outputs, metadata, lambda shapes: compiled(from_onnx(proto, shapes, values))
    )


def _metadata(proto: Any) -> ModelMetadata:
    """Of an ``onnx.ModelProto``."""
    return ModelMetadata(
        proto.producer_name, proto.graph.name, proto.domain, proto.doc_string,
        proto.graph.doc_string, proto.model_version,
        {entry.key: entry.value for entry in proto.metadata_props},
    )  # fmt: skip


def _node(specs: Sequence[TensorSpec]) -> NodeArg:
    """One tensor, as it is for each set of shapes."""
    first = specs[0]
    return NodeArg(first.name, onnx_type(first.dtype), _common([spec.shape for spec in specs]))


def _common(shapes: Sequence[tuple[int, ...]]) -> list[int | str | None]:
    if len({len(shape) for shape in shapes}) > 1:
        return []
    return [dims[0] if len(set(dims)) == 1 else None for dims in zip(*shapes, strict=True)]
