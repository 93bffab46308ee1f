"""``erfc`` without the difference of 1 and ``erf``, of which nothing is left from 4 on.

``erfc(z) = t exp(-z^2 + p(t))`` with ``t = 2 / (2 + z)`` and a polynomial ``p`` for all ``z`` that
are not negative: a Chebyshev series whose last terms float64 rounds away.
"""

from __future__ import annotations

from typing import Any, Final

_SERIES: Final = (
    -1.30265371978170943, 0.64196979235649026, 0.0194764732041858363, -0.00956151478680863164,
    -0.000946595344482036866, 0.000366839497852761452, 4.25233248069077716e-05,
    -2.02785781125342432e-05, -1.62429000464702551e-06, 1.3036558355805232e-06,
    1.56264417220661432e-08, -8.52380959149265425e-08, 6.5290544390988515e-09,
    5.05934349555146894e-09, -9.91364156493033087e-10, -2.27365122293183586e-10,
    9.6467911020155268e-11, 2.39403808303911474e-12, -6.8860275264975534e-12,
    8.94487927309072572e-13, 3.13092139934295808e-13, -1.12708223613672524e-13,
    3.81090525518923206e-16, 7.10609761360923699e-15, -1.5230282014571043e-15,
    -9.457494571291234e-17, 1.21023718922427899e-16, -2.81666308774717697e-17,
)  # fmt: skip
_LAST: Final = 28.0  # from here on erfc is 0 in float64
_STEPS: Final = 16  # squares of multiples of 1 / 16 are exact


def erfc(x: Any) -> Any:
    """``1 - erf(x)`` with all digits."""
    import torch

    data = _accurate(x)
    z = data.abs().clamp(max=_LAST)
    coarse = (z * _STEPS).floor() / _STEPS
    scaled, exponent = _scaled(z)
    # One rounding error of z^2 would be one of some digits.
    tail = scaled * (-coarse * coarse).exp() * ((coarse - z) * (coarse + z) + exponent).exp()
    return torch.where(data < 0, 2 - tail, tail).to(_result(x))


def erfcx(x: Any) -> Any:
    """``exp(x^2) erfc(x)``."""
    import torch

    data = _accurate(x)
    scaled, exponent = _scaled(data.abs())
    tail = scaled * exponent.exp()
    return torch.where(data < 0, 2 * (data * data).exp() - tail, tail).to(_result(x))


def _scaled(z: Any) -> tuple[Any, Any]:
    """``t`` and ``p(t)``, by Clenshaw's sums."""
    import torch

    t = 2 / (2 + z)
    place = 4 * t - 2
    least = torch.finfo(z.dtype).eps / 16
    terms = [term for term in _SERIES if abs(term) > least]
    last, before = 0.0, 0.0
    for term in reversed(terms[1:]):
        last, before = place * last - before + term, last
    return t, 0.5 * (place * last + terms[0]) - before


def _accurate(x: Any) -> Any:
    """In float32 or float64."""
    import torch

    return x if x.dtype == torch.float64 else x.to(torch.float32)


def _result(x: Any) -> Any:
    """The dtype of the result: integers become floats."""
    import torch

    return x.dtype if x.dtype.is_floating_point else torch.get_default_dtype()
