"""Masks: affine conditions outside of which values do not count."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """``sum(c * x) < high`` for one coefficient c and one place x each, such as ``j - i < 1``.

    The same object stands for the same mask in all stages that it reaches, each of which has places
    of its own.
    """

    coefficients: tuple[int, ...]
    high: int
