"""Disturbances find what they are there to find."""

from __future__ import annotations

import signal
from random import Random

import pytest

from campaign.faults.interrupts import Raised, by_alarm, by_ctrl_c
from campaign.faults.modules import compiled
from campaign.files.programs import SUBJECTS, is_right, records, subject
from campaign.files.values import damaged, places
from campaign.hatchery import Hatchery
from campaign.part import Entry

PLAN = Entry("planted", "cases", "", 1, {}, 60, 8)


class Planted:
    """Runs the function it is made of."""

    def __init__(self, run):
        self.run = run

    def draw(self, seed):
        return {}

    def judge(self, case, mark):
        return self.run()

    def smaller(self, case):
        yield from ()


@pytest.mark.parametrize("attack", [by_alarm, by_ctrl_c])
def test_a_module_that_returns_the_last_result_is_found(attack):
    class Stale:
        """Returns what the call before it should have, after an interrupt."""

        def __init__(self, module):
            self.module, self.last = module, None

        def run(self, inputs):
            result = self.module.run(inputs)
            self.last, result = result, self.last or result
            return result

        def benchmark(self, inputs):
            return self.run(inputs)

    def judge():
        from campaign.verdict import Verdict

        true = compiled(8, 1)
        assert attack(true, Random(1), 5) is None
        problem = attack(true._replace(module=Stale(true.module)), Random(1), 5)
        return Verdict("wrong" if problem else "right", problem or "")

    verdict = Hatchery(Planted(judge), PLAN).judge({})
    assert verdict.outcome == "wrong", verdict
    assert "another call's result" in verdict.message


def test_an_interrupt_that_python_drops_is_sent_again():
    """As one that comes in a destructor."""

    class Dropping:
        def __init__(self, module):
            self.module, self.drops = module, 3

        def run(self, inputs):
            try:
                return self.module.run(inputs)
            except Raised:
                self.drops -= 1
                if self.drops < 0:
                    raise
                return self.module.run(inputs)

        benchmark = run

    true = compiled(8, 1)
    module = Dropping(true.module)
    before = signal.getsignal(signal.SIGALRM)
    try:
        assert by_alarm(true._replace(module=module), Random(1), 5) is None
    finally:
        signal.signal(signal.SIGALRM, before)
    assert module.drops < 3


@pytest.mark.parametrize("number", range(SUBJECTS))
def test_subjects_are_right_and_have_records(number):
    which = subject(number)
    module = which.task.module(dict(which.constants))
    found = module.run(dict(which.inputs))[which.output]
    assert is_right(which, found)
    assert not is_right(which, found + found.max() * 0.01)
    assert len(records(number)) > 5


def test_damage_changes_a_copy():
    record = records(0)[0]
    before = repr(record)
    changed = [damaged(record, Random(seed)) for seed in range(50)]
    assert repr(record) == before
    assert sum(new != record for new in changed) > 40
    assert len(list(places({"a": [1, {"b": 2}]}))) == 4
