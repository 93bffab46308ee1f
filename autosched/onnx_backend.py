"""ONNX's backend interface, for tools that drive runtimes through it.

The module itself is a backend, as ``onnx.backend.test.BackendTest`` expects one::

    tests = onnx.backend.test.BackendTest(autosched.onnx_backend, __name__)

A model whose input shapes are open is compiled when it is run, for the shapes it is run with.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, Final, Never

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

from autosched.api import compile as compile_network
from autosched.graph.errors import ModelImportError, OpenShapesError, UnsupportedModelError
from autosched.host.evaluator import HostError
from autosched.network_source import from_onnx
from autosched.onnx.importer.piece import value_info
from autosched.runtime.errors import InputError
from autosched.runtime.module import Module

Inputs = Sequence[Any] | Mapping[str, Any]
_DEVICE: Final = "CPU"
_SHAPES: Final = 8  # sets of input shapes that a model is kept compiled for


class AutoschedBackendRep(BackendRep):
    """A model, compiled as soon as its shapes are known; for the last eight sets of them."""

    def __init__(self, model: onnx.ModelProto, module: Module | None, threads: int | None) -> None:
        """``module``: the compiled model, None while its shapes are open."""
        self._model, self._module, self._threads = model, module, threads
        self._modules: OrderedDict[tuple[tuple[str, Any], ...], Module] = OrderedDict()
        self._lock = Lock()
        initialized = {tensor.name for tensor in model.graph.initializer}
        self._names = [i.name for i in model.graph.input if i.name not in initialized]

    @property
    def module(self) -> Module | None:
        """The compiled model; None before the first run if its shapes are open."""
        return self._module

    def run(self, inputs: Inputs, **_: Any) -> tuple[Any, ...]:
        """The outputs in the model's order.

        Args:
            inputs: arrays by name, or in the order of the model's inputs.

        Raises:
            AutoschedError: inputs that do not fit, or an operator that failed on them.
            BackendIsNotSupposedToImplementIt: what the model needs for these shapes is missing.
        """
        arrays = _named(self._names, inputs)
        module = self._module_for(arrays)
        try:
            values = module.run(arrays)
        except HostError as error:
            if isinstance(error.__cause__, ImportError):
                _not_supported(str(error), error)
            raise
        names = [info.name for info in self._model.graph.output]
        return namedtupledict("Outputs", names)(*(values[name] for name in names))

    def _module_for(self, arrays: Mapping[str, NDArray[Any]]) -> Module:
        """Compiled for the shapes of these arrays, once; threads may ask for several at a time."""
        module = self._module
        if module is not None and all(
            spec.shape == arrays[spec.name].shape for spec in module.inputs if spec.name in arrays
        ):
            return module
        shapes = {name: array.shape for name, array in arrays.items()}
        key = tuple(sorted(shapes.items()))
        found = self._modules.get(key)
        if found is None:
            with self._lock:
                found = self._modules.get(key) or _compiled(self._model, self._threads, shapes)
                self._modules[key] = found
                if len(self._modules) > _SHAPES:
                    self._modules.popitem(last=False)
        self._module = found
        return found


class AutoschedBackend(Backend):
    """Compiles models for this machine; without a log, so every schedule is the predicted one."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = _DEVICE, **kwargs: Any) -> bool:
        """Whether ``prepare`` accepts the model."""
        if not cls.supports_device(device):
            return False
        try:
            from_onnx(model)
        except OpenShapesError:
            return True
        except ModelImportError:
            return False
        return True

    @classmethod
    def prepare(
        cls, model: onnx.ModelProto, device: str = _DEVICE, threads: int | None = None, **_: Any
    ) -> AutoschedBackendRep:
        """Compile ``model``.

        Raises:
            BackendIsNotSupposedToImplementIt: the model or the device is not supported.
            ModelImportError: the model is broken.
        """
        if not cls.supports_device(device):
            _not_supported(f"device {device!r}")
        try:
            module = _compiled(model, threads, None)
        except OpenShapesError:
            return AutoschedBackendRep(model, None, threads)
        return AutoschedBackendRep(model, module, threads)

    @classmethod
    def run_model(
        cls, model: onnx.ModelProto, inputs: Inputs, device: str = _DEVICE, **kwargs: Any
    ) -> tuple[Any, ...]:
        """``prepare``, then run once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Inputs,
        device: str = _DEVICE,
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Run one node.

        Args:
            node: the ONNX node.
            inputs: arrays in the node's order.
            device: as onnx calls it; only the CPU.
            outputs_info: as in onnx's ``Backend``.
            kwargs: ``opset_version`` defaults to onnx's newest.
        """
        super().run_node(node, inputs, device, outputs_info, **kwargs)
        opset = int(kwargs.pop("opset_version", onnx.defs.onnx_opset_version()))
        arrays = _named([name for name in node.input if name], inputs)
        body = helper.make_graph(
            [node],
            node.op_type,
            [value_info(name, array.shape, str(array.dtype)) for name, array in arrays.items()],
            [helper.make_empty_tensor_value_info(name) for name in node.output if name],
        )
        opsets = [helper.make_opsetid(node.domain, opset)]
        model = helper.make_model(body, opset_imports=opsets)
        return cls.run_model(_with_inferred_outputs(model), arrays, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether ``device`` is a CPU."""
        return device.partition(":")[0].upper() == _DEVICE


def _named(names: Sequence[str], inputs: Inputs) -> dict[str, NDArray[Any]]:
    if not isinstance(inputs, Mapping) and len(inputs) != len(names):
        raise InputError(
            f"{len(inputs)} inputs for the {len(names)} of the model", hint=", ".join(names)
        )
    given = inputs if isinstance(inputs, Mapping) else dict(zip(names, inputs, strict=True))
    return {name: np.asarray(value) for name, value in given.items()}


def _compiled(
    model: onnx.ModelProto, threads: int | None, shapes: Mapping[str, Sequence[int]] | None
) -> Module:
    try:
        network = from_onnx(model, shapes)
    except UnsupportedModelError as error:
        _not_supported(str(error), error)
    return compile_network(network, threads=threads, effort="none")


def _with_inferred_outputs(model: onnx.ModelProto) -> onnx.ModelProto:
    """The checker wants element types on the outputs."""
    return onnx.shape_inference.infer_shapes(model, data_prop=True)


def _not_supported(reason: str, cause: Exception | None = None) -> Never:
    from onnx.backend.test.runner import BackendIsNotSupposedToImplementIt

    raise BackendIsNotSupposedToImplementIt(reason) from cause


is_compatible = AutoschedBackend.is_compatible
prepare = AutoschedBackend.prepare
run_model = AutoschedBackend.run_model
run_node = AutoschedBackend.run_node
supports_device = AutoschedBackend.supports_device
