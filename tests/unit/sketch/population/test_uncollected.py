"""The garbage collector is off within, and as it was after."""

from __future__ import annotations

import gc

import pytest

from sketch.population.uncollected import uncollected


def test_the_collector_rests_within_and_works_again_after_an_error() -> None:
    assert gc.isenabled()
    with pytest.raises(KeyError), uncollected():
        assert not gc.isenabled()
        with uncollected():
            assert not gc.isenabled()
        assert not gc.isenabled(), "an inner one leaves it to the outer one"
        raise KeyError
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
