"""What a user says of the precision that a network's layers are computed in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from numpy.typing import NDArray

Precision = Literal["as written", "bf16", "fp16", "tf32", "int8-dynamic"]
"""That of the model; products of bfloat16 or of float16 elements that are summed in float32; of
float32 rounded to tf32; or of bytes that are summed in int32, data quantised when they are known.
"""

PRECISIONS: Final[tuple[Precision, ...]] = get_args(Precision)

Arrays = Mapping[str, NDArray[Any]]
"""An array for each input."""


@dataclass(frozen=True, slots=True)
class ReducedLayers:
    """Names of layers of an optimised graph, and the precision of their products."""

    precision: Precision = "as written"
    names: frozenset[str] = frozenset()


AS_WRITTEN: Final = ReducedLayers()


@dataclass(frozen=True, slots=True, eq=False)
class PrecisionOptions:
    """A precision, and what decides which layers get it.

        >>> options = asd.PrecisionOptions("fp16", bound=0.02)
        >>> module = asd.compile(asd.zoo.build("mlp", image=4), precision=options)

    Attributes:
        precision: of the layers.
        data: inputs that errors are measured on beside random ones: an array for each input of the
            network, or several such.
        bound: the largest error of a layer, relative to the largest of its outputs; layers with
            larger ones stay as they are.  None: ``BOUNDS`` of ``autosched.graph.precision``.
    """

    precision: Precision
    data: Arrays | Sequence[Arrays] | None = None
    bound: float | None = None


BOUNDS: Final[Mapping[Precision, float]] = {
    "as written": 0.0,
    "bf16": 2.0**-7,
    "fp16": 2.0**-10,
    "tf32": 2.0**-10,
    "int8-dynamic": 2.0**-5,
}
"""Default bounds of the errors of layers.

Rounding both factors of products to floats of ``p`` binary digits moves a sum by at most
``2**(1 - p)`` of that of their sizes: a layer that is further off subtracts numbers that are almost
equal.  Bytes have steps of 1/127 of the largest number of a row or a channel: where numbers are
spread evenly, errors of sums are about 1 % of the largest; three times that is a few large numbers
that leave no steps for the others.
"""
