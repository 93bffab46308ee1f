"""``InferenceSession``: a network behind the interface of ONNX Runtime, for simple use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.api import AnyTarget, load, resolve_target
from autosched.api import compile as compile_network
from autosched.network_source import PathText, from_onnx
from autosched.onnx.type_names import numpy_name, onnx_type
from autosched.runtime.errors import InputError
from autosched.runtime.inputs import check_names
from autosched.runtime.module import Module
from autosched.system.element_types import element_type
from autosched.system.errors import OptionError
from autosched.system.optional_packages import require
from autosched.system.user_warnings import notify
from sketch.errors import quoted

if TYPE_CHECKING:
    from autosched.runtime.program import TensorSpec
    from autosched.tuning.options import Effort

Shapes = tuple[tuple[int, ...], ...]

_COMPILED: Final = ".asd"
_PROVIDERS: Final = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
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


class InferenceSession:
    """A network that is run as ``onnxruntime.InferenceSession`` runs it.

        >>> asd.compile(asd.zoo.build("mlp", image=4), effort="none").save("mlp.asd")
        >>> session = asd.InferenceSession("mlp.asd", providers=["CPUExecutionProvider"])
        >>> name = session.get_inputs()[0].name
        >>> (logits,) = session.run(None, {name: np.ones((1, 16), np.float32)})
        >>> logits.shape
        (1, 10)

    ``run``, ``get_inputs``, ``get_outputs`` and ``get_providers`` are those of ONNX Runtime; any
    number of threads may call ``run``.  A model with open shapes is compiled for each set of shapes
    when it first comes, which takes seconds.
    """

    def __init__(
        self,
        model: PathText | bytes | Module,
        sess_options: Any = None,
        providers: Sequence[Any] | None = None,
        target: AnyTarget = "cpu",
        threads: int | None = None,
        log: PathText | None = None,
        effort: Effort = "draft",
        trusted: bool = False,
        shared: bool = False,
    ) -> None:
        """Read and compile a model, or load a compiled one.

        Args:
            model: path of an ``.onnx`` or ``.asd`` file, the bytes of an ONNX model, or a module.
            sess_options: ``onnxruntime.SessionOptions``, of which ``intra_op_num_threads`` counts.
            providers: as in ONNX Runtime; that of the target must be among them.
            target: as in ``compile``; of a compiled model, its own.
            threads: worker threads; None: those of ``sess_options``, else of the target.
            log: records of tuning.
            effort: for operators without a record, as in ``compile``.
            trusted: of an ``.asd`` file, as in ``load``.
            shared: of an ``.asd`` file, as in ``load``.

        Raises:
            AutoschedError: as ``compile`` and ``load``.
            OptionError: no provider fits the target.
        """
        threads = threads or getattr(sess_options, "intra_op_num_threads", 0) or None
        self._modules: dict[Shapes, Module] = {}
        self._lock = Lock()
        if isinstance(model, str | PathLike) and fspath(model).endswith(_COMPILED):
            model = load(model, trusted, shared=shared)
        if isinstance(model, Module):
            self._only: Module | None = model
            self._inputs, self._outputs = _sides(model)
            self._provider = _provider(model.target.kind, providers)
            return
        machine = resolve_target(target, threads)
        self._provider = _provider(machine.kind, providers)
        require("onnx", "InferenceSession", "onnx")
        from autosched.onnx.importer.load import load_model
        from autosched.onnx.importer.shapes import declared_tensors

        proto = load_model(fspath(model) if isinstance(model, PathLike) else model)
        declared = declared_tensors(proto)
        self._inputs, self._outputs = (
            [NodeArg(name, onnx_type(dtype), list(dims or ())) for name, dtype, dims in side]
            for side in declared
        )

        def compiled(shapes: Mapping[str, Sequence[int]] | None) -> Module:
            return compile_network(from_onnx(proto, shapes), machine, log, effort=effort)

        self._compiled: Callable[[Mapping[str, Sequence[int]] | None], Module] = compiled
        fixed = all(
            dims is not None and all(isinstance(dim, int) for dim in dims)
            for _, _, dims in declared[0]
        )
        self._only = compiled(None) if fixed else None

    def get_inputs(self) -> list[NodeArg]:
        """The model's inputs, in order."""
        return list(self._inputs)

    def get_outputs(self) -> list[NodeArg]:
        """The model's outputs, in order."""
        return list(self._outputs)

    def get_providers(self) -> list[str]:
        """Where it runs, in ONNX Runtime's words."""
        return [self._provider]

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: Any = None,
    ) -> list[NDArray[Any]]:
        """Compute outputs.

        Args:
            output_names: which, in which order; None: all, in the model's order.
            input_feed: an array, or a list of numbers, for each input name.
            run_options: has no meaning here.

        Raises:
            InputError: an output or input is unknown or missing, or an array does not fit.
            HostError: an operator that runs on the host failed on these values.
        """
        wanted = _wanted(output_names, [arg.name for arg in self._outputs])
        feed = self._arrays(input_feed)
        outputs = self._module_for(feed).run(feed)
        return [outputs[name] for name in wanted]

    def _arrays(self, feed: Mapping[str, Any]) -> Mapping[str, Any]:
        """The inputs with lists as arrays of what the model takes."""
        if not isinstance(feed, Mapping):
            return feed  # which is an error, later
        types = {arg.name: arg.type for arg in self._inputs}
        return {
            name: _array_of(value, types[name], f"input {name!r}")
            if name in types and isinstance(value, list | tuple)
            else value
            for name, value in feed.items()
        }

    def _module_for(self, feed: Mapping[str, Any]) -> Module:
        if self._only is not None:
            return self._only
        names = [arg.name for arg in self._inputs]
        takes = ", ".join(f"{arg.name}: {arg.type} {arg.shape}" for arg in self._inputs)
        check_names(names, feed, f"the model takes {takes}")
        shapes: Shapes = tuple(tuple(getattr(feed[name], "shape", ())) for name in names)
        found = self._modules.get(shapes)
        if found is not None:
            return found
        with self._lock:
            if shapes not in self._modules:
                self._make_room()
                self._modules[shapes] = self._compiled(dict(zip(names, shapes, strict=True)))
            return self._modules[shapes]

    def _make_room(self) -> None:
        if len(self._modules) >= _MOST_SHAPES:
            oldest = next(iter(self._modules))
            notify([f"more than {_MOST_SHAPES} sets of input shapes: that of {oldest} is dropped"])
            del self._modules[oldest]


def _wanted(names: object, known: list[str]) -> list[str]:
    """The outputs that a caller names, or all; raises InputError for other things than names."""
    if isinstance(names, str) or not isinstance(names, Iterable | None):
        raise InputError(f"output_names is {quoted(names)}", hint="give a list of names, or None")
    wanted = list(names or ()) or known
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise InputError(
            f"no output is named {quoted(unknown[0])}", hint=f"the model has {', '.join(known)}"
        )
    return wanted


def _array_of(value: Sequence[Any], kind: str, where: str) -> NDArray[Any]:
    """An array of numbers in a list; ``kind``: in ONNX's words.

    Raises:
        InputError: the list is no array of that type.
    """
    try:
        return np.asarray(value, element_type(numpy_name(kind)))
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"the list is no {kind}: {error}", where) from error


def _provider(kind: str, providers: Sequence[Any] | None) -> str:
    """The provider of a kind of target; raises OptionError where it is not among those wanted."""
    mine = _PROVIDERS[kind]
    names = _provider_names(providers)
    if names and mine not in names:
        raise OptionError(
            f"providers {', '.join(names)} do not have {mine}, where a {kind} target runs",
            hint=f'leave providers out, or give target="{"cuda" if kind == "cpu" else "cpu"}"',
        )
    return mine


def _provider_names(providers: object) -> list[str]:
    """The names in what ONNX Runtime takes: names, or pairs of a name and options."""
    given = () if providers is None else providers
    if isinstance(given, list | tuple):
        names = [item[0] if isinstance(item, tuple) and item else item for item in given]
        if all(isinstance(name, str) for name in names):
            return names
    raise OptionError(f"providers is {quoted(providers)}", hint="give a list of names, or None")


def _sides(module: Module) -> tuple[list[NodeArg], list[NodeArg]]:
    """Inputs and outputs of a compiled module; extents that its shapes differ in are None."""
    sides = [[part.inputs for part in module.modules], [part.outputs for part in module.modules]]
    inputs, outputs = ([_node(specs) for specs in zip(*side, strict=True)] for side in sides)
    return inputs, outputs


def _node(specs: Sequence[TensorSpec]) -> NodeArg:
    """One tensor, as it is for each set of shapes."""
    first = specs[0]
    return NodeArg(first.name, onnx_type(first.dtype), _common([spec.shape for spec in specs]))


def _common(shapes: Sequence[tuple[int, ...]]) -> list[int | str | None]:
    if len({len(shape) for shape in shapes}) > 1:
        return []
    return [dims[0] if len(set(dims)) == 1 else None for dims in zip(*shapes, strict=True)]
