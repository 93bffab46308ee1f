"""``torch.compile(model, backend="autosched")``.

torch hands over graphs without side effects (through its AOT autograd), one for each part between
graph breaks.  A graph is compiled when it first runs, once for each set of input shapes (the last
``MOST_SHAPES`` are kept), with the model's parameters as constants, and its first results are
compared with torch's.  What cannot be compiled runs as torch would run it: graphs with operators
that are not supported or whose results differ, training, tensors that are not dense arrays on the
CPU.

Importing this module lets torch.compile trace recurrent layers, in the whole process.

Options (``torch.compile(..., options={...})``): ``target``, ``log`` (a tuning log to take schedules
from), ``budget`` (tunes each graph for so long, e.g. "2m", when it is compiled; needs ``log``),
``denormals`` and ``accuracy`` (see ``autosched.compile``).
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.graph.errors import ModelImportError
from autosched.torch_frontend.agreement import agree
from autosched.torch_frontend.encoder_layer import encoder_layer
from autosched.torch_frontend.export import export_onnx, import_torch
from autosched.torch_frontend.recurrent_layer import (
    allow_recurrent_layers,
    as_single_operators,
    as_torch_operators,
    has_recurrent_layers,
)
from sketch.errors import AutoschedError

if TYPE_CHECKING:
    from autosched.graph.ir import Network
    from autosched.runtime.module import Module

LOG: Final = logging.getLogger("autosched.torch")
_OPTIONS: Final = ("target", "log", "budget", "denormals", "accuracy")
# Sets of input shapes that a graph is kept compiled for; the least recently used one goes.
MOST_SHAPES: Final = 32

allow_recurrent_layers()  # torch asks for it when it meets the layer, before it calls a back end


def backend(
    graph_module: Any, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """The entry point that torch finds under the name ``autosched``.

    Raises:
        ModelImportError: an option that does not exist, or torch's exporter is missing.
    """
    torch = import_torch()
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    chosen = dict(options or {})
    unknown = sorted(set(chosen) - set(_OPTIONS))
    if unknown:
        raise ModelImportError(
            f"unknown option {unknown[0]!r}", "torch.compile", f"options are {', '.join(_OPTIONS)}"
        )

    def inference(graph: Any, _: Sequence[Any]) -> Callable[..., Any]:
        as_torch_operators(graph.graph)
        graph.recompile()
        compiled = CompiledGraph(graph, _static_inputs(), chosen)
        return make_boxed_func(compiled)  # type: ignore[no-any-return]

    def training(graph: Any, _: Sequence[Any]) -> Callable[..., Any]:
        return make_boxed_func(graph.forward)  # type: ignore[no-any-return]

    if has_recurrent_layers(graph_module.graph):
        if torch.is_grad_enabled() and any(map(_needs_gradient, example_inputs)):
            LOG.warning(
                "a graph with recurrent layers stays with torch: it records gradients, which "
                "torch.no_grad() prevents"
            )
            return graph_module.forward  # type: ignore[no-any-return]
        as_single_operators(graph_module.graph)
        graph_module.recompile()
    layer = torch.ops.aten._transformer_encoder_layer_fwd.default
    compiler = aot_autograd(
        fw_compiler=training,
        inference_compiler=inference,
        decompositions={layer: encoder_layer},
    )
    return compiler(graph_module, example_inputs)  # type: ignore[no-any-return]


def _needs_gradient(value: Any) -> bool:
    return bool(getattr(value, "requires_grad", False))


def _static_inputs() -> frozenset[int]:
    """Positions of the inputs that are the model's parameters and buffers."""
    from torch._guards import TracingContext

    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    return frozenset(() if metadata is None else metadata.static_input_indices)


@dataclass(frozen=True, slots=True)
class _Specialised:
    """A graph compiled for certain shapes.

    Attributes:
        module: None: torch runs it.
        versions: state of the constants that were compiled in.
        inputs: name and position of each input of the module.
    """

    module: Module | None
    versions: tuple[Any, ...]
    inputs: tuple[tuple[str, int], ...] = ()


class CompiledGraph:
    """A graph of ATen operators that compiles itself for the shapes it meets.

    ``static`` are the positions of the inputs that are constants, as long as nobody changes them.
    """

    def __init__(self, graph: Any, static: frozenset[int], options: Mapping[str, Any]) -> None:
        self._graph = graph
        self._options = options
        self._static = static
        nodes = list(graph.graph.nodes)
        self._placeholders = [node for node in nodes if node.op == "placeholder"]
        self._outputs: tuple[Any, ...] = tuple(nodes[-1].args[0])
        self._known: OrderedDict[tuple[Any, ...], _Specialised] = OrderedDict()  # by last use

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        """The graph's results, as torch would compute them."""
        if not all(_is_plain(value) for value in args):
            return self._with_torch(args)
        key = tuple(
            None if index in self._static else _signature(value) for index, value in enumerate(args)
        )
        versions = tuple(_version(args[index]) for index in sorted(self._static))
        known = self._known.get(key)
        if known is None or known.versions != versions:
            known = self._remember(key, self._specialise(args, versions))
        elif key in self._known:
            self._known.move_to_end(key)
        if known.module is None:
            return self._with_torch(args)
        return self._run(known.module, known.inputs, args)

    def _remember(self, key: tuple[Any, ...], made: _Specialised) -> _Specialised:
        """Keep what was made last; each holds its own copy of the constants."""
        self._known[key] = made
        if len(self._known) > MOST_SHAPES:
            self._known.popitem(last=False)
            LOG.info("a graph ran with more than %d sets of shapes: one is dropped", MOST_SHAPES)
        return made

    def _with_torch(self, args: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(self._graph(*args))

    def _specialise(self, args: Sequence[Any], versions: tuple[Any, ...]) -> _Specialised:
        try:
            known = self._compile(args, versions)
            self._check_results(known, args)
            return known
        except AutoschedError as error:
            LOG.warning("a graph of %d operators stays with torch: %s", self._operators, error)
            return _Specialised(None, versions)

    @property
    def _operators(self) -> int:
        return sum(node.op == "call_function" for node in self._graph.graph.nodes)

    @property
    def _computed(self) -> list[int]:
        """Positions of the outputs that the graph computes: not constants, not inputs."""
        return [
            index
            for index, value in enumerate(self._outputs)
            if hasattr(value, "op") and value.op != "placeholder"
        ]

    def _compile(self, args: Sequence[Any], versions: tuple[Any, ...]) -> _Specialised:
        import torch

        from autosched import api

        if not self._computed:
            raise ModelImportError("it computes nothing")
        variable = [
            index
            for index, value in enumerate(args)
            if isinstance(value, torch.Tensor) and index not in self._static
        ]
        bound = _bind(self._graph, args, variable, self._computed)
        model = _exported(bound, [args[index].detach() for index in variable])
        network = api.from_onnx(model)
        self._check_outputs(network)
        options = dict(self._options)
        target, log = options.get("target", "cpu"), options.get("log")
        accuracy = options.get("accuracy", "default")
        if "budget" in options:
            api.tune(
                network,
                target=target,
                budget=options["budget"],
                log=log,
                quiet=True,
                accuracy=accuracy,
            )
        denormals = options.get("denormals", "flush")
        module = api.compile(
            network, target=target, log=log, denormals=denormals, accuracy=accuracy
        )
        self._report(module)
        names = [value.name for value in network.inputs]
        return _Specialised(module, versions, tuple(zip(names, variable, strict=True)))

    def _report(self, module: Module) -> None:
        """Tell the logger what became of the graph; what runs on the host is a warning."""
        program = module.program
        on_host = ", ".join(f"{s.info.op} ({s.info.name})" for s in program.host_steps)
        LOG.info(
            "a graph of %d operators: %d kernels, %d operators on the host",
            self._operators,
            len(program.kernel_steps),
            len(program.host_steps),
        )
        if on_host:
            LOG.warning("operators without a kernel run on the host: %s", on_host)

    def _check_outputs(self, network: Network) -> None:
        """ONNX knows no complex numbers: torch's exporter writes them as pairs."""
        for index, ours in zip(self._computed, network.outputs, strict=True):
            theirs = self._outputs[index].meta["val"]
            if str(theirs.dtype) != f"torch.{ours.dtype}" or theirs.dim() != len(ours.shape):
                raise ModelImportError(
                    f"an output is {theirs.dtype} with {theirs.dim()} dimensions, as ONNX it is "
                    f"{ours.type}"
                )

    def _check_results(self, known: _Specialised, args: Sequence[Any]) -> None:
        """Compare with torch once: its exporter and ONNX may see an operator in another way."""
        assert known.module is not None
        ours = self._run(known.module, known.inputs, args)
        for index, theirs in enumerate(self._with_torch(args)):
            if index in self._computed and not agree(ours[index], theirs):
                raise ModelImportError(f"output {index} is not what torch computes")

    def _run(
        self, module: Module, inputs: Sequence[tuple[str, int]], args: Sequence[Any]
    ) -> tuple[Any, ...]:
        results = module.run({name: to_numpy(args[index]) for name, index in inputs})
        computed = dict(zip(self._computed, results.values(), strict=True))
        positions = {node.name: index for index, node in enumerate(self._placeholders)}
        return tuple(
            to_torch(computed[index])
            if index in computed
            else (args[positions[value.name]] if hasattr(value, "op") else value)
            for index, value in enumerate(self._outputs)
        )


def _exported(module: Any, args: Sequence[Any]) -> Any:
    """The ONNX model, exported in a thread of its own.

    This thread is inside a compiled function of torch: dispatch modes are set that the exporter
    cannot work under.
    """
    import torch

    def export() -> Any:
        with torch.no_grad():
            return export_onnx(module, args)

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(export).result()


def _bind(graph: Any, args: Sequence[Any], variable: Sequence[int], computed: Sequence[int]) -> Any:
    """A module of the variable inputs alone, that returns the computed outputs alone."""
    import torch

    fixed = {index: value for index, value in enumerate(args) if index not in variable}

    class Bound(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = graph  # called "graph", it would hide the graph that torch makes of this
            for index, value in fixed.items():
                if isinstance(value, torch.Tensor):
                    self.register_buffer(f"constant{index}", value.detach())

        def forward(self, *inputs: Any) -> Any:
            values = iter(inputs)
            given = [
                getattr(self, f"constant{index}", fixed[index]) if index in fixed else next(values)
                for index in range(len(args))
            ]
            results = self.body(*given)
            return tuple(results[index] for index in computed)

    return Bound().eval()


def _is_plain(value: Any) -> bool:
    """Whether a NumPy array can stand for the value (numbers stand for themselves)."""
    import torch

    if not isinstance(value, torch.Tensor):
        return isinstance(value, int | float | bool)
    return value.device.type == "cpu" and value.layout == torch.strided and not value.is_inference()


def _signature(value: Any) -> Any:
    return (tuple(value.shape), value.dtype) if hasattr(value, "dtype") else value


def _version(value: Any) -> Any:
    """Changes whenever the tensor's elements are written or replaced."""
    return (value.data_ptr(), value._version) if hasattr(value, "_version") else value


def to_numpy(tensor: Any) -> NDArray[Any]:
    """A tensor's elements, without a copy where it is contiguous."""
    import torch

    dense = tensor.detach().contiguous()
    if dense.dtype == torch.bfloat16:
        import ml_dtypes

        return dense.view(torch.int16).numpy().view(ml_dtypes.bfloat16)  # type: ignore[no-any-return]
    return dense.numpy()  # type: ignore[no-any-return]


def to_torch(array: NDArray[Any]) -> Any:
    """A tensor of the array's own memory."""
    import torch

    if str(array.dtype) == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
