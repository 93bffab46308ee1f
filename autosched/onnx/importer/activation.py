"""Importers of activation functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from autosched.graph.ops.activation import Activation, ActivationFunction
from autosched.graph.ops.elementwise import LeakyRelu
from autosched.onnx.importer.site import Site
from sketch.operators.activations import SELU_ALPHA, SELU_GAMMA

_Parameters = tuple[tuple[str, float], ...]

# Each parameter by the name of its attribute, with the default.
_FUNCTIONS: Final[dict[str, tuple[ActivationFunction, _Parameters]]] = {
    "Celu": ("celu", (("alpha", 1.0),)),
    "Elu": ("elu", (("alpha", 1.0),)),
    "HardSigmoid": ("hard_sigmoid", (("alpha", 0.2), ("beta", 0.5))),
    "HardSwish": ("hard_swish", ()),
    "Mish": ("mish", ()),
    "Selu": ("selu", (("alpha", SELU_ALPHA), ("gamma", SELU_GAMMA))),
    "Shrink": ("shrink", (("lambd", 0.5), ("bias", 0.0))),
    "Softplus": ("softplus", ()),
    "Softsign": ("softsign", ()),
    "Swish": ("swish", (("alpha", 1.0),)),
    "ThresholdedRelu": ("thresholded_relu", (("alpha", 1.0),)),
}


def _import_function(function: ActivationFunction, parameters: _Parameters, site: Site) -> None:
    values = tuple(float(site.attributes.get(name, default)) for name, default in parameters)
    site.emit(Activation(function, values), [site.input(0)])


def import_gelu(site: Site) -> None:
    """Gelu, exact or by a hyperbolic tangent."""
    approximate = site.attributes.get("approximate", "none") == "tanh"
    site.emit(Activation("gelu_tanh" if approximate else "gelu"), [site.input(0)])


def import_leaky_relu(site: Site) -> None:
    """LeakyRelu."""
    site.emit(LeakyRelu(float(site.attributes.get("alpha", 0.01))), [site.input(0)])


IMPORT_ACTIVATION: Final[dict[str, Callable[[Site], None]]] = {
    **{name: partial(_import_function, *row) for name, row in _FUNCTIONS.items()},
    "Gelu": import_gelu,
    "LeakyRelu": import_leaky_relu,
}
