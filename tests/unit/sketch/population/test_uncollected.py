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


def test_what_is_left_is_old() -> None:
    gc.collect()
    with uncollected():
        kept = [[n] for n in range(10_000)]
    assert len(gc.get_objects(generation=0)) < len(kept) // 2


def test_what_somebody_froze_stays_so() -> None:
    gc.freeze()
    try:
        with uncollected():
            pass
        assert gc.get_freeze_count()
    finally:
        gc.unfreeze()
