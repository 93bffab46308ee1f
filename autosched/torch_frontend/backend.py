"""``torch.compile(model, backend="autosched")``.

torch hands over graphs without side effects (through its AOT autograd), one for each part between
graph breaks.  A graph is compiled when it first runs, once for each set of input shapes up to a
limit, with the model's parameters as constants, and its first results are compared with torch's.
What cannot be compiled runs as torch would run it: graphs with operators that are not supported or
whose results differ, training, tensors that are not dense arrays on the CPU.

Importing this module lets torch.compile trace recurrent layers, in the whole process.

Compiled graphs are kept on disk for other processes.  Options: see ``options.BackendOptions``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from autosched.torch_frontend.compiled_graph import CompiledGraph
from autosched.torch_frontend.encoder_layer import encoder_layer
from autosched.torch_frontend.export import check_exporter
from autosched.torch_frontend.options import backend_options, check_mode
from autosched.torch_frontend.recurrent_layer import (
    allow_recurrent_layers,
    as_single_operators,
    as_torch_operators,
    has_recurrent_layers,
)

LOG: Final = logging.getLogger("autosched.torch")
_GRADIENTS: Final = "it records gradients, which torch.no_grad() prevents"

allow_recurrent_layers()  # torch asks for it when it meets the layer, before it calls a back end


def backend(
    graph_module: Any,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """The entry point that torch finds under the name ``autosched``.

    Args:
        graph_module: what torch.compile traced.
        example_inputs: of it.
        options: see ``BackendOptions``.
        mode: that of ``torch.compile``; torch's own back end has others than None.

    Raises:
        OptionError: an option that does not exist, a value that makes no sense, or a mode.
        ModelImportError: torch's exporter is missing.
    """
    check_exporter()
    check_mode(mode)
    import torch
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    chosen = backend_options(options)

    def inference(graph: Any, _: Sequence[Any]) -> Callable[..., Any]:
        as_torch_operators(graph.graph)
        graph.recompile()
        compiled = CompiledGraph(graph, _static_inputs(), chosen, _name())
        return make_boxed_func(compiled)  # type: ignore[no-any-return]

    def training(graph: Any, inputs: Sequence[Any]) -> Callable[..., Any]:
        LOG.warning("graph %s stays with torch: %s", _name(), _GRADIENTS)
        return as_it_is(graph, inputs)

    def as_it_is(graph: Any, _: Sequence[Any]) -> Callable[..., Any]:
        return make_boxed_func(graph.forward)  # type: ignore[no-any-return]

    if has_recurrent_layers(graph_module.graph):
        if torch.is_grad_enabled() and any(map(_needs_gradient, example_inputs)):
            LOG.warning("a graph with recurrent layers stays with torch: %s", _GRADIENTS)
            return graph_module.forward  # type: ignore[no-any-return]
        as_single_operators(graph_module.graph)
        graph_module.recompile()
    layer = torch.ops.aten._transformer_encoder_layer_fwd.default
    compiler = aot_autograd(
        fw_compiler=training,
        bw_compiler=as_it_is,
        inference_compiler=inference,
        decompositions={layer: encoder_layer},
    )
    return compiler(graph_module, example_inputs)  # type: ignore[no-any-return]


def _needs_gradient(value: Any) -> bool:
    return bool(getattr(value, "requires_grad", False))


def _name() -> str:
    """The number that torch's own logs have for what is being compiled, such as ``0/1``."""
    from torch._guards import CompileContext

    return str(CompileContext.current_compile_id() or "")


def _static_inputs() -> frozenset[int]:
    """Positions of the inputs that are the model's parameters and buffers."""
    from torch._guards import TracingContext

    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    return frozenset(() if metadata is None else metadata.static_input_indices)
