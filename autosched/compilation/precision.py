"""Networks in a narrower precision on request: which layers, and what that does to results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import EllipsisType
from typing import Final

import numpy as np

from autosched.graph.evaluate import Reference, evaluate, evaluate_node
from autosched.graph.ir import Graph, Network, Node
from autosched.graph.ops.movement import Slice
from autosched.graph.optimize import optimize
from autosched.graph.precision import (
    BOUNDS,
    PRECISIONS,
    Arrays,
    Precision,
    PrecisionOptions,
    ReducedLayers,
)
from autosched.graph.reduced import reducible_layers, rounded_operands, with_reduced
from autosched.runtime.program import TensorSpec
from autosched.runtime.random_arrays import random_arrays
from autosched.system.errors import OptionError
from autosched.system.limits import check_choice, check_number
from autosched.system.memory_limit import enough_memory
from autosched.system.user_warnings import notify
from sketch.errors import TargetError, quoted
from sketch.lang.dtypes import is_float
from sketch.target.target import Target
from sketch.target.units import units_of

_NAMED: Final = 8
_TEXTS: Final[Mapping[Precision, str]] = {
    "as written": "another precision",
    "bf16": "bfloat16",
    "fp16": "float16",
    "tf32": "tf32",
    "int8-dynamic": "dynamic int8",
}
_ELEMENTS: Final[Mapping[Precision, str]] = {
    "bf16": "bfloat16",
    "tf32": "tf32",
    "int8-dynamic": "uint8",
}
_WANTED: Final[Mapping[str, str]] = {
    "bfloat16": "a CPU with avx512bf16 (of Arm: bf16) or a GPU of sm_80 or later",
    "tf32": "a GPU of sm_80 or later",
    "uint8": "a CPU with avx512vnni or avxvnni (of Arm: i8mm) or a GPU of sm_80 or later",
}
_CONVERTS: Final = ("f16c", "avx512f", "neon")  # of CPUs; GPUs have no features, and all convert


@dataclass(frozen=True, slots=True, eq=False)
class Reduction:
    """A network some layers of which are in a narrower precision, and how far off its results are.

    Errors are ``max|y - reference| / max|reference|``, the reference without any rounding.

    Attributes:
        network: to be compiled or tuned.
        layers: the error of each layer that could be, on exact operands, by name.
        bound: layers with larger errors stay as they are.
        random: the error of each output on random inputs.
        given: on those that were given, the largest; None: there were none.
    """

    network: Network
    layers: Mapping[str, float]
    bound: float
    random: Mapping[str, float]
    given: Mapping[str, float] | None = None

    @property
    def kept(self) -> tuple[str, ...]:
        """Layers that stay as they are because of their errors."""
        return tuple(name for name in self.layers if name not in self.network.reduced.names)

    def __str__(self) -> str:
        reduced, kept = self.network.reduced, self.kept
        what = _TEXTS[reduced.precision]
        if not self.layers:
            return f"{self.network.name} has no layer that can be computed in {what}"
        count = f"{len(reduced.names)} of {len(self.layers)}"
        text = f"{count} layers of {self.network.name} are in {what}"
        if kept:
            named = ", ".join(f"{name} ({self.layers[name]:.1e})" for name in kept[:_NAMED])
            more = f" and {len(kept) - _NAMED} more" if len(kept) > _NAMED else ""
            text += f"; errors above {self.bound:.1e} keep {named}{more} as written"
        text += f"; outputs differ by {_worst(self.random)} of the largest on random inputs"
        return text if self.given is None else f"{text}, {_worst(self.given)} on those given"


def reduce_precision(
    network: Network,
    data: Arrays | Sequence[Arrays] | None = None,
    bound: float | None = None,
    precision: Precision = "bf16",
) -> Reduction:
    """A network with its convolutions and products with constants in a narrower precision; in
    ``"bf16"`` products of two activations that meet in several rows, too.

    The network is evaluated in float64 with and without the roundings, on random inputs and on
    those given, to find the layers that stay as they are, and to say what the rest does.

        >>> reduction = asd.reduce_precision(asd.zoo.build("mlp", image=4))
        >>> len(reduction.network.reduced.names), max(reduction.random.values()) < 0.02
        (3, True)

    Args:
        network: as ``from_onnx`` or ``zoo.build`` gives it.
        data: an array for each input, or several such.
        bound: the largest error of a layer, relative to the largest of its outputs; None: 2^-7 for
            ``"bf16"``, 2^-10 for ``"fp16"`` and ``"tf32"``, 2^-5 for ``"int8-dynamic"``.
        precision: of the products, as in ``compile``.

    Raises:
        GraphError: ``data`` are not those of the network's inputs.
        OptionError: ``network``, ``bound`` or ``precision`` is none.
    """
    if not isinstance(network, Network):
        raise OptionError(
            f"{quoted(network)} is no network", hint="read a file with from_onnx first"
        )
    check_choice("precision", precision, PRECISIONS)
    most = BOUNDS[precision] if bound is None else bound
    check_number("bound", most, 0, math.inf)
    with enough_memory(f"evaluating network {network.name}"):
        graph = optimize(network.graph)
        specs = [TensorSpec(value.name, value.shape, value.dtype) for value in network.inputs]
        samples = [random_arrays(specs), *_samples(data)]
        layers = {node.name: 0.0 for node in reducible_layers(graph, precision)}
        exact = [_evaluated(graph, sample, layers, precision) for sample in samples]
        chosen = frozenset(name for name, error in layers.items() if error <= most)
        reduced = ReducedLayers(precision, chosen)
        rounded = with_reduced(graph, reduced)
        errors = [
            {name: _error(array, wanted[name]) for name, array in evaluate(rounded, sample).items()}
            for sample, wanted in zip(samples, exact, strict=True)
        ]
    random, *others = errors
    given = {n: max(found[n] for found in others) for n in random} if others else None
    return Reduction(replace(network, reduced=reduced), layers, most, random, given)


def in_precision(
    networks: Sequence[Network], precision: Precision | PrecisionOptions, target: Target
) -> Sequence[Network]:
    """The networks in a precision; says what that does to their results.

    Raises:
        OptionError: ``precision`` is no such word.
        TargetError: the target does not compute with such numbers.
    """
    options = precision
    if not isinstance(options, PrecisionOptions):
        options = PrecisionOptions(options)
    check_choice("precision", options.precision, PRECISIONS)
    if options.precision == "as written":
        return networks
    _check_target(options.precision, target)
    samples = _samples(options.data)
    # what is of no network is an error, which the evaluation of any names
    strange = [one for one in samples if not any(_fits(one, network) for network in networks)]
    found = []
    for network in networks:
        data = strange + [one for one in samples if _fits(one, network)]
        found.append(reduce_precision(network, data, options.bound, options.precision))
    notify(str(reduction) for reduction in found)
    return [reduction.network for reduction in found]


def _check_target(precision: Precision, target: Target) -> None:
    """Raise TargetError where a precision gains nothing because code would emulate it."""
    element = _ELEMENTS.get(precision)
    if element is not None and not any(unit.factor == element for unit in units_of(target)):
        raise TargetError(
            f"{target.label} has no instruction for products of {element}",
            hint=f"{_WANTED[element]} has; leave precision out",
        )
    if element is None and target.has and target.has.isdisjoint(_CONVERTS):
        raise TargetError(
            f"{target.label} has no instruction that reads float16",
            hint="a CPU with f16c has; leave precision out",
        )


def _samples(data: Arrays | Sequence[Arrays] | None) -> list[Arrays]:
    if data is None or isinstance(data, Mapping):
        return [] if data is None else [data]
    if isinstance(data, Sequence) and all(isinstance(one, Mapping) for one in data):
        return list(data)
    raise OptionError(
        f"{quoted(data)} are no inputs", hint="give a dict from name to array, or a list of such"
    )


def _fits(sample: Arrays, network: Network) -> bool:
    """Whether a sample has the names and shapes of a network's inputs."""
    wanted = {value.name: value.shape for value in network.inputs}
    return {name: np.shape(array) for name, array in sample.items()} == wanted


def _evaluated(
    graph: Graph, inputs: Arrays, layers: dict[str, float], precision: Precision
) -> dict[str, Reference]:
    """The outputs; ``layers`` gets the errors of those layers that are larger than known."""

    def see(node: Node, operands: Arrays, exact: Reference) -> None:
        if node.name in layers:
            rounded = rounded_operands(graph, node, operands, precision)
            found = evaluate_node(node, rounded)
            errors = [_error(found[part], exact[part]) for part in _parts(graph, node)]
            layers[node.name] = max(layers[node.name], *errors)

    return evaluate(graph, inputs, see)


def _parts(graph: Graph, node: Node) -> list[tuple[EllipsisType | slice, ...]]:
    """What is read of a layer as results of its own, such as queries, keys and values: columns may
    be small beside others, whose errors are no measure for them.  All, if anybody reads all.
    """
    readers = [reader.op for reader in graph.consumers.get(node.output, ())]
    last = len(graph.types[node.output].shape) - 1
    columns: list[tuple[EllipsisType | slice, ...]] = [
        (..., slice(op.start[last], op.stop[last]))
        for op in readers
        if isinstance(op, Slice) and op.step[last] > 0
    ]
    whole = len(columns) < len(readers) or node.output in graph.result_values
    return [(...,)] if whole or not columns else columns


def _error(found: Reference, exact: Reference) -> float:
    """Infinite where one of them is no number; of other types than floats 0 or infinite."""
    if not is_float(str(exact.dtype)):
        return 0.0 if np.array_equal(found, exact) else np.inf
    with np.errstate(all="ignore"):
        apart, size = np.abs(found - exact).max(initial=0.0), np.abs(exact).max(initial=0.0)
        error = float(apart / size) if size > 0 else float(apart)
    return np.inf if np.isnan(error) else error


def _worst(errors: Mapping[str, float]) -> str:
    return f"{max(errors.values(), default=0.0):.1e}"
