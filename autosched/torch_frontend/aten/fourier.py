"""The converter of our own operator for Fourier transforms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from autosched.graph.spectrum import Transform, transform_axis
from autosched.torch_frontend.aten.call import AtenCall, Converter
from autosched.torch_frontend.fourier_operator import half_spectrum_factors


def _fourier(call: AtenCall) -> str:
    """Half of the spectrum: what is missing has the same real part."""
    shape, axis, length = call.shape("x"), call["dim"], call["length"]
    read = min(length, shape[axis])
    transform = Transform(
        read=read,
        length=length,
        results=call["results"],
        parts=shape[-1],
        inverse=call["inverse"],
        window=half_spectrum_factors(read, length) if call["real"] else None,
        scale=call["scale"],
        real=call["real"],
        start=call["start"],
        first=call["first"],
    )
    return transform_axis(call, call.value("x"), axis, transform)


FOURIER: Final[Mapping[str, Converter]] = {"fourier.default": _fourier}
