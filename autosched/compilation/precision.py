"""Networks in bfloat16 on request: which layers, and what that does to the results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.graph.bfloat16 import NARROW, in_bfloat16, reducible_layers
from autosched.graph.evaluate import Reference, evaluate, evaluate_node
from autosched.graph.ir import Graph, Network, Node
from autosched.graph.optimize import optimize
from autosched.graph.precision import PRECISIONS, Precision
from autosched.runtime.program import TensorSpec
from autosched.runtime.random_arrays import random_arrays
from autosched.system.errors import OptionError
from autosched.system.limits import check_choice, check_number
from autosched.system.memory_limit import enough_memory
from autosched.system.user_warnings import notify
from sketch.errors import TargetError, quoted
from sketch.lang.dtypes import is_float
from sketch.lang.storage_floats import storage_floats
from sketch.target.target import Target
from sketch.target.units import units_of

# Rounding both factors of products moves a sum by at most 2**-7 of that of their sizes: a layer
# that is further off subtracts numbers that are almost equal.
BOUND: Final = 2.0**-7
_NAMED: Final = 3
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Reduction:
    """A network some layers of which are computed in bfloat16, and how far off its results are.

    Errors are ``max|y - reference| / max|reference|``, the reference without any rounding.

    Attributes:
        network: to be compiled or tuned.
        layers: the error of each layer that could be, on exact operands, by name.
        bound: layers with larger errors stay as they are.
        random: the error of each output on random inputs.
        given: on those that were given; None: there were none.
    """

    network: Network
    layers: Mapping[str, float]
    bound: float
    random: Mapping[str, float]
    given: Mapping[str, float] | None = None

    @property
    def kept(self) -> tuple[str, ...]:
        """Layers that stay as they are because of their errors."""
        return tuple(name for name in self.layers if name not in self.network.in_bfloat16)

    def __str__(self) -> str:
        count, kept = len(self.network.in_bfloat16), self.kept
        if not self.layers:
            return f"{self.network.name} has no layer that can be computed in bfloat16"
        text = f"{count} of {len(self.layers)} layers of {self.network.name} are in bfloat16"
        if kept:
            named = ", ".join(f"{name} ({self.layers[name]:.1e})" for name in kept[:_NAMED])
            more = f" and {len(kept) - _NAMED} more" if len(kept) > _NAMED else ""
            text += f"; errors above {self.bound:.1e} keep {named}{more} as written"
        text += f"; outputs differ by {_worst(self.random)} of the largest on random inputs"
        return text if self.given is None else f"{text}, {_worst(self.given)} on those given"


def reduce_precision(
    network: Network, data: Arrays | None = None, bound: float = BOUND
) -> Reduction:
    """A network with its convolutions and products with constants in bfloat16, summed in float32.

    The network is evaluated in float64 with and without the roundings, on random inputs and on
    those given, to find the layers that stay as they are, and to say what the rest does.

        >>> reduction = asd.reduce_precision(asd.zoo.build("mlp", image=4))
        >>> len(reduction.network.in_bfloat16), max(reduction.random.values()) < 0.02
        (3, True)

    Args:
        network: as ``from_onnx`` or ``zoo.build`` gives it.
        data: an array for each input.
        bound: the largest error of a layer, relative to the largest of its outputs.

    Raises:
        GraphError: ``data`` are not those of the network's inputs.
        OptionError: ``network`` or ``bound`` is none.
    """
    if not isinstance(network, Network):
        raise OptionError(
            f"{quoted(network)} is no network", hint="read a file with from_onnx first"
        )
    check_number("bound", bound, 0, math.inf)
    with enough_memory(f"evaluating network {network.name}"):
        graph = optimize(network.graph)
        specs = [TensorSpec(value.name, value.shape, value.dtype) for value in network.inputs]
        samples = [random_arrays(specs), *([] if data is None else [data])]
        layers = {node.name: 0.0 for node in reducible_layers(graph)}
        exact = [_evaluated(graph, sample, layers) for sample in samples]
        chosen = frozenset(name for name, error in layers.items() if error <= bound)
        rounded = in_bfloat16(graph, chosen)
        errors = [
            {name: _error(array, wanted[name]) for name, array in evaluate(rounded, sample).items()}
            for sample, wanted in zip(samples, exact, strict=True)
        ]
    return Reduction(replace(network, in_bfloat16=chosen), layers, bound, *errors)


def in_precision(
    networks: Sequence[Network], precision: Precision, target: Target
) -> Sequence[Network]:
    """The networks in a precision; says what that does to their results.

    Raises:
        OptionError: ``precision`` is no such word.
        TargetError: the target does not multiply such numbers.
    """
    check_choice("precision", precision, PRECISIONS)
    if precision == "as written":
        return networks
    if not any(unit.lhs == NARROW for unit in units_of(target)):
        raise TargetError(
            f"{target.label} has no instruction for products of bfloat16",
            hint="a CPU with avx512bf16 has; leave precision out",
        )
    found = [reduce_precision(network) for network in networks]
    notify(str(reduction) for reduction in found)
    return [reduction.network for reduction in found]


def _evaluated(graph: Graph, inputs: Arrays, layers: dict[str, float]) -> dict[str, Reference]:
    """The outputs; ``layers`` gets the errors of those layers that are larger than known."""

    def see(node: Node, operands: Arrays, exact: Reference) -> None:
        if node.name in layers:
            factors = node.inputs[:2]
            rounded = {n: _rounded(a) if n in factors else a for n, a in operands.items()}
            error = _error(evaluate_node(node, rounded), exact)
            layers[node.name] = max(layers[node.name], error)

    return evaluate(graph, inputs, see)


def _rounded(array: NDArray[Any]) -> NDArray[np.float64]:
    return storage_floats(array, NARROW).astype(np.float64)


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
