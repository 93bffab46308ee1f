"""A PyTorch module as a network: ``torch.export``, and ONNX for what has no converter of ours."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, Final

from autosched.graph.errors import ModelImportError
from autosched.graph.ir import Network
from autosched.torch_frontend.accurate import decompositions
from autosched.torch_frontend.all_rows import network_of_program
from autosched.torch_frontend.aten import (
    NotTakenError,
    ProgramCall,
    call_of_program,
)
from autosched.torch_frontend.bound_graph import bind_constants
from autosched.torch_frontend.complex_numbers import real_form
from autosched.torch_frontend.fourier_operator import fourier_translation
from autosched.torch_frontend.output_names import (
    names_of_parts,
    with_output_names,
)
from autosched.torch_frontend.paddings import padding_functions
from autosched.torch_frontend.recurrent_layer import translations
from autosched.torch_frontend.results import tensors_of, with_types_of
from autosched.torch_frontend.tensors import check_dtype
from autosched.torch_frontend.translation import make_translatable

LOG: Final = logging.getLogger("autosched.torch")
_EXPORTERS: Final = ("torch.onnx", "onnxscript", "onnx_ir")
_INSTALL: Final = "install them: pip install 'autosched[torch]'"


def from_torch(
    module: Any,
    example_inputs: Any,
    name: str | None = None,
    output_names: Sequence[str] | None = None,
) -> Network:
    """Import a ``torch.nn.Module`` as a network.

    The module is exported in evaluation mode (dropout off, batch-norm with its statistics); its own
    mode is as before afterwards.  The network's inputs are called like the parameters of
    ``forward``; its outputs come in the order in which the module's result is flattened, and are
    called like its keys and fields (``y``, ``boxes.0``; ``output_0`` of a tuple).

    Args:
        module: the module; its weights are copied.
        example_inputs: a tensor, a sequence of arguments, or a mapping of keyword arguments for
            ``forward``; they fix shapes and dtypes.
        name: name of the network; default: the module's class, in lower case.
        output_names: other names of the outputs, one for each.

    Raises:
        ModelImportError: torch or its ONNX exporter is missing, the module cannot be exported (what
            torch says is part of the message), it contains operators that are not supported, or
            ``output_names`` are not as many, or not different.
    """
    torch = _import_torch()
    if not isinstance(module, torch.nn.Module):
        raise ModelImportError(f"from_torch takes a torch.nn.Module, got {type(module).__name__}")
    args, kwargs = _arguments(torch, example_inputs)
    modes = {child: child.training for child in module.modules()}
    module.eval()
    try:
        with torch.no_grad():
            network = _imported(module, args, kwargs)
    finally:
        for child, training in modes.items():
            child.training = training
    if output_names is not None:
        network = with_output_names(network, output_names, f"module {type(module).__name__}")
    return Network(name or type(module).__name__.lower(), network.graph)


def _imported(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Network:
    """By our own converters where they know all operators, else as torch's exporter writes it."""
    where = f"module {type(module).__name__}"
    program = _program(module, args, kwargs, where)
    results = tensors_of(program, where)
    _check_inputs(program)
    network = with_types_of(results, _network_of(program, where), where)
    names = names_of_parts(program, network.inputs)
    return with_output_names(network, names, where) if names else network


def _network_of(program: Any, where: str) -> Network:
    with _exporting(where):
        # side effects become part of the signature
        pure = program.run_decompositions(padding_functions())
    _check_unchanged(pure, where)
    from autosched.onnx.importer import from_onnx

    real = None
    try:
        call = call_of_program(pure)
        real = _in_real_numbers(call)
        return _with_own_weights(network_of_program(real))
    except NotTakenError as reason:
        LOG.debug("%s is taken through ONNX: %s", where, reason)
        lacking = reason.target if real is None else None
    names = program.graph_signature.user_inputs
    if real is not None and real is not call:
        program = _program(*_bound(real), {}, where)
    try:
        return from_onnx(_onnx_model(program, where, names))
    except ModelImportError as error:
        if lacking is None:
            raise
        raise ModelImportError(f"{lacking} has no form for complex numbers", where) from error


def _in_real_numbers(call: ProgramCall) -> ProgramCall:
    """The call of a graph without complex numbers: the same one, if it has none."""
    graph, args = real_form(call.graph, call.args)
    return call if graph is call.graph else replace(call, graph=graph, args=args)


def _bound(call: ProgramCall) -> tuple[Any, list[Any]]:
    """A module of the variable inputs alone, and these."""
    variable = [index for index in range(len(call.args)) if index not in call.static]
    module = bind_constants(call.graph, call.args, variable, list(call.outputs))
    return module, [call.args[index] for index in variable]


def _check_inputs(program: Any) -> None:
    """Raise ModelImportError if no network has inputs of the type of one."""
    given = [name for name in program.graph_signature.user_inputs if isinstance(name, str)]
    for node in program.graph.nodes:
        if node.name in given and hasattr(node.meta.get("val"), "dtype"):
            check_dtype(node.meta["val"], node.name)


def _with_own_weights(network: Network) -> Network:
    """A network whose constants are no memory of the module, which may be trained on."""
    own = {name: array.copy() for name, array in network.graph.constants.items()}
    return replace(network, graph=replace(network.graph, constants=own))


def export_onnx(module: Any, args: Sequence[Any]) -> Any:
    """The ``onnx.ModelProto`` of ATen operators that AOT autograd traced, for these shapes.

    Args:
        module: the module.
        args: of its ``forward``.

    Raises:
        ModelImportError: torch cannot export the module, its exporter would ignore an argument, or
            the module changes its inputs or buffers.
    """
    where = f"module {type(module).__name__}"
    program = _program(module, args, {}, where)
    return _onnx_model(program, where, program.graph_signature.user_inputs, traced=True)


def exported(module: Any, args: Sequence[Any]) -> Any:
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


def _program(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any], where: str) -> Any:
    torch = _import_torch()
    with _exporting(where):
        return torch.export.export(module, tuple(args), dict(kwargs))


def _onnx_model(program: Any, where: str, names: Sequence[Any], traced: bool = False) -> Any:
    """The inputs are called ``names``; ``traced``: it may have nothing to take apart."""
    torch = _import_torch()
    with _exporting(where):
        if not (traced and _is_plain(program.graph)):
            # makes side effects part of the signature, too
            program = program.run_decompositions(decompositions())
        _check_unchanged(program, where)
        make_translatable(program.graph_module.graph, where)
        model = _folded(
            torch.onnx.export(
                program,
                dynamo=True,
                verbose=False,
                optimize=False,  # that takes x + 1e-9 and x * 1.00001 for x
                custom_translation_table=translations() | fourier_translation(),
            ).model
        )
        _name_inputs(model, names)
        return model


def _folded(model: Any) -> Any:
    """The ``onnx.ModelProto`` of an exported model.

    Functions are inlined, constants computed, and views of the operands of products taken away.
    """
    from onnxscript import ir, optimizer, rewriter
    from onnxscript.rewriter.rules import common

    optimizer.inline(model)
    optimizer.fold_constants(model, onnx_shape_inference=True)
    views = common.two_reshapes_matmul_reshape_rule, common.one_reshape_matmul_reshape_rule
    return ir.to_proto(rewriter.rewrite(model, views))


@contextlib.contextmanager
def _exporting(where: str) -> Iterator[None]:
    """Quiet; whatever torch raises becomes one ModelImportError."""
    try:
        with _quiet():
            yield
    except ModelImportError:
        raise
    except Exception as error:  # torch raises whatever it meets on the way
        raise ModelImportError(
            f"torch cannot export the module: {_reason(error)}",
            where,
            "see torch.export's documentation on what can be exported, or use "
            "torch.compile(module, backend='autosched'), which leaves such parts to torch",
        ) from error


def _check_unchanged(program: Any, where: str) -> None:
    """Raise ModelImportError if a program without side effects stands for one that has some."""
    signature = program.graph_signature
    changed = [*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()]
    if changed:
        raise ModelImportError(
            f"the module changes {', '.join(map(str, changed))}",
            where,
            "a network's outputs must be all that it computes",
        )


def _is_plain(graph: Any) -> bool:
    """Whether there is nothing to take apart, and nothing that is written in place."""
    replaced = decompositions()
    targets = [node.target for node in graph.nodes if node.op == "call_function"]
    return not any(
        target in replaced or getattr(getattr(target, "_schema", None), "is_mutable", False)
        for target in targets
    )


def _name_inputs(model: Any, parameters: Sequence[Any]) -> None:
    """Name inputs like the parameters; the exporter gives that name to an output that is one."""
    from autosched.host.node_names import renamed

    given = [name for name in parameters if isinstance(name, str)]
    inputs = [info.name for info in model.graph.input]
    names = {old: new for old, new in zip(inputs, given, strict=False) if old != new}
    if len(given) != len(inputs) or not names:
        return
    names |= {new: f"{new}_result" for new in names.values()}
    nodes = [renamed(node, names) for node in model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    for info in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        info.name = names.get(info.name, info.name)


def _reason(error: BaseException) -> str:
    """The innermost cause; its first line that is not empty."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def check_exporter() -> None:
    """Raise ModelImportError unless torch and its ONNX exporter are there; imports neither."""
    for package in ("torch", "onnxscript"):
        if find_spec(package) is None:
            raise ModelImportError(
                f"PyTorch modules need torch and onnxscript: no module named {package!r}",
                hint=_INSTALL,
            )


def _import_torch() -> Any:
    check_exporter()
    import torch

    return torch


def _arguments(torch: Any, example: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(example, Mapping):
        return (), dict(example)
    if isinstance(example, torch.Tensor):
        return (example,), {}
    if isinstance(example, Sequence):
        return tuple(example), {}
    raise ModelImportError(
        f"example inputs are of type {type(example).__name__}",
        "from_torch",
        "give a tensor, a tuple of arguments, or a dict of keyword arguments",
    )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporters' remarks on their own work and on packages that are not needed."""
    logs = [logging.getLogger(name) for name in _EXPORTERS]
    levels = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)
