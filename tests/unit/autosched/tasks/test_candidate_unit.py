"""A candidate says which tensor unit its contraction is computed on."""

from __future__ import annotations

from autosched.tasks.candidate import Candidate
from sketch.rules.generate import generate
from tests.support.units import WIDE, int_product


def test_the_unit_of_a_candidate() -> None:
    names = [Candidate(sketch, {}).unit for sketch in generate(int_product(8, 32, 64), WIDE)]
    assert set(names) == {"", "vpdpbusd.512"}
