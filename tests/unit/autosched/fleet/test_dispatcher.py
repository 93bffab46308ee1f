"""Who measures what: order, theft, losses, noise."""

import pytest

from autosched.fleet.dispatcher import Dispatcher, DispatchOptions
from autosched.fleet.work import Answer, Work
from autosched.measure.result import Failure, Timing


def work(task="a", trials=4):
    return Work("measure", task, b"", trials)


def answer(sentinel_s=1e-3, trials=4):
    return Answer((Timing((1.0,)),) * trials, sentinel_s)


def fleet(*machines, **options):
    return Dispatcher(machines, DispatchOptions(**options))


def warmed(*machines, **options):
    """A fleet whose machines have each done four pieces in a second each."""
    found = fleet(*machines, **options)
    for number in range(4 * len(machines)):
        found.add(number, work())
        name = machines[number % len(machines)]
        assert found.take(name, now=0.0) == number
        assert found.finish(name, number, answer(), now=1.0) is not None
    return found


def test_free_machines_take_the_oldest_and_urgent_ones_first():
    found = fleet("x", "y", nearby=1)
    for number in range(3):
        found.add(number, work())
    found.add(3, work(), urgent=True)
    assert [found.take(name, 0.0) for name in "xyxyx"] == [3, 0, 1, 2, None]


def test_a_machine_stays_with_its_task_within_bounds():
    found = fleet("x", nearby=3)
    for number, task in enumerate("abbaab"):
        found.add(number, work(task))
    order = []
    while (number := found.take("x", 0.0)) is not None:
        order.append(number)
        found.finish("x", number, answer(), 1.0)
    assert order == [0, 3, 4, 1, 2, 5]


def test_what_a_lost_machine_had_goes_to_another_and_is_lost_by_no_one():
    found = fleet("x", "y")
    found.add(0, work())
    assert found.take("x", 0.0) == 0 and found.take("y", 0.0) is None
    assert found.lose("x") == [] == found.lose("x")
    assert found.active == ("y",)
    assert found.take("y", 1.0) == 0
    assert found.finish("y", 0, answer(), 2.0) == answer()


def test_a_piece_that_takes_machines_down_is_given_up():
    found = fleet(*"wxyz")
    found.add(7, work(trials=2))
    for name in "wx":
        assert found.take(name, 0.0) == 7 and found.lose(name) == []
    assert found.take("y", 0.0) == 7
    ((number, given_up),) = found.lose("y")
    assert number == 7 and len(given_up.results) == 2
    assert all(isinstance(r, Failure) and r.kind == "MachineLost" for r in given_up.results)
    assert found.take("z", 0.0) is None


def test_an_overdue_piece_is_taken_over_and_the_first_answer_counts():
    found = warmed("x", "y")
    found.add(50, work())
    assert found.take("x", 10.0) == 50
    assert found.take("y", 12.0) is None
    assert found.take("y", 15.0) == 50
    assert found.finish("y", 50, answer(), 16.0) is not None
    assert found.finish("x", 50, answer(), 17.0) is None
    assert found.take("x", 99.0) is None


def test_a_noisy_answer_is_dropped_and_measured_elsewhere_first():
    found = warmed("x", "y")
    found.add(50, work())
    assert found.take("x", 2.0) == 50
    assert found.finish("x", 50, answer(1.4e-3), 3.0) is None and found.dropped == 1
    assert found.take("x", 3.0) is None
    assert found.take("y", 3.0) == 50
    assert found.finish("y", 50, answer(1.1e-3), 4.0) is not None


def test_after_some_drops_an_answer_counts():
    found = warmed("x", drops=2)
    found.add(50, work())
    taken = []
    for now in range(3):
        assert found.take("x", now) == 50
        taken.append(found.finish("x", 50, answer(1.4e-3), now + 1))
    assert taken[:2] == [None, None] and taken[2] is not None


def test_a_machine_slower_than_the_others_gets_no_more_until_it_is_the_only_one():
    found = fleet(*"xyz")
    for number in range(12):
        name = "xyz"[number % 3]
        found.add(number, work())
        taken = found.take(name, 0.0)
        if taken is not None:
            found.finish(name, taken, answer(2e-3 if name == "z" else 1e-3), 1.0)
    assert found.slow == ["z"] and found.active == ("x", "y")
    assert found.take("z", 5.0) is None
    found.lose("x"), found.lose("y")
    assert found.active == ("z",) and found.slow == []


def test_machines_that_cannot_time_the_sentinel_are_believed():
    found = fleet("x")
    found.add(0, work())
    found.take("x", 0.0)
    assert found.finish("x", 0, Answer((), None), 1.0) == Answer((), None)
    with pytest.raises(KeyError):
        found.finish("unknown", 0, answer(), 1.0)
