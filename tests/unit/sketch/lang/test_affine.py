"""The algebra of affine terms and of intervals."""

from sketch.lang.affine import add_terms, bounds, scale_terms


def test_terms_that_cancel_disappear_and_order_is_kept() -> None:
    assert add_terms((("i", 2), ("j", 1)), (("k", 3), ("i", 2)), -1) == (("j", 1), ("k", -3))


def test_nothing_is_left_of_terms_times_zero() -> None:
    assert scale_terms((("i", 2), ("j", -1)), 3) == (("i", 6), ("j", -3))
    assert scale_terms((("i", 2),), 0) == ()


def test_bounds_are_those_of_all_points() -> None:
    ranges = {"i": (-1, 4), "j": (0, 3)}
    terms = (("i", -2), ("j", 5))
    points = [7 - 2 * i + 5 * j for i in range(-1, 5) for j in range(4)]
    assert bounds(7, terms, ranges.__getitem__) == (min(points), max(points))
