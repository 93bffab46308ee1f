"""Planted faults get the verdict that they deserve, and cases become small."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from campaign.hatchery import Hatchery, Item
from campaign.keep import keep, kept
from campaign.minimise import minimise
from campaign.part import KERNEL, Entry
from campaign.processes import children
from campaign.tensor import part as tensor_part
from campaign.tensor.evaluate import ProgramError, evaluate
from campaign.tensor.guarded import Guarded
from campaign.tensor.numbers import Number
from campaign.tensor.part import PART
from campaign.tensor.values import inputs_of
from campaign.verdict import Verdict

PLAN = Entry("planted", "cases", "", 1, {}, 1.0, 8)


def touch(address: int) -> None:
    ctypes.c_uint8.from_address(address).value  # noqa: B018


class Planted:
    """A part whose cases say what they do."""

    def draw(self, seed):
        return {"do": ("right", "wrong", "die", "hang", "raise", "outside", "leave")[seed % 7]}

    def judge(self, case, mark):
        match case["do"]:
            case "wrong":
                return Verdict("wrong", "2 is not 1")
            case "die":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "hang":
                time.sleep(60)
            case "raise":
                raise ZeroDivisionError("nothing")
            case "outside":
                block = Guarded(100, "end")
                touch(block.address + 99)
                mark(KERNEL)
                touch(block.address + 100)
            case "leave" if os.fork() == 0:
                time.sleep(60)
        return Verdict("right", "", {"steps": 2})

    def smaller(self, case):
        yield from ()


def test_every_death_is_a_verdict_and_the_next_case_runs():
    items = [Item(seed, None) for seed in range(9)]
    answers = list(Hatchery(Planted(), PLAN).run(items))
    assert [a.item.seed for a in answers] == list(range(9))
    outcomes = [a.verdict.outcome for a in answers]
    expected = ["right", "wrong", "crash", "hang", "error", "out_of_bounds", "right"]
    assert outcomes == [*expected, "right", "wrong"]
    assert "SIGSEGV" in answers[2].verdict.message
    assert "test_campaign_verdicts.py:" in answers[3].verdict.message  # where it hangs
    assert "ZeroDivisionError" in answers[4].verdict.message
    assert answers[0].verdict.counts == {"steps": 2}


def test_other_children_of_the_process_live_on():
    """Whoever runs cases may have processes of its own."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as other:
        leaving = [Item(6, None)]
        assert [a.verdict.outcome for a in Hatchery(Planted(), PLAN).run(leaving)] == ["right"]
        assert other.poll() is None
        assert children(os.getpid()).count(other.pid) == 1


@pytest.mark.parametrize("side", ["start", "end"])
def test_guarded_memory_sees_writes_beside_it(side):
    block = Guarded(100, side)
    block.array(np.uint8, (100,))[...] = 7
    assert block.intact()
    beside = block.address + (100 if side == "start" else -1)
    ctypes.c_uint8.from_address(beside).value = 1
    assert not block.intact()
    block.free()


def first_right(seeds=range(1, 60)):
    """A drawn program that is right, several stages long."""
    for seed in seeds:
        case = PART.draw(seed)
        if len(case["stages"]) > 1 and Hatchery(PART, PLAN_LONG).judge(case).outcome == "right":
            return case
    raise AssertionError("no program is right")


PLAN_LONG = Entry("tensor", "cases", "", 1, {}, 60, 8)


@pytest.mark.slow
def test_a_wrong_number_is_found_and_the_program_made_small(monkeypatch):
    case = first_right()

    def off(program, inputs):
        return {
            name: Number(n.value + 1, n.error, n.dtype) if n.dtype != "bool" else n
            for name, n in evaluate(program, inputs).items()
        }

    monkeypatch.setattr(tensor_part, "evaluate", off)
    hatchery = Hatchery(PART, PLAN_LONG)
    monkeypatch.setattr(PART.__class__, "draw", lambda self, seed: case)
    assert hatchery.judge(case).outcome == "wrong"
    smallest = hatchery.smallest(0, "wrong")
    assert hatchery.judge(smallest).outcome == "wrong"
    assert len(smallest["stages"]) == 1
    assert len(str(smallest)) < len(str(case))


def test_the_evaluator_knows_a_product_and_refuses_reads_outside():
    case = {
        "inputs": [
            {"name": n, "shape": s, "dtype": "float32", "kind": "unit", "high": 0}
            for n, s in (("a", [3, 4]), ("b", [4, 5]))
        ],
        "stages": [{
            "name": "c", "axes": [["i", 3], ["j", 5]],
            "reduce": {"kind": "sum", "axes": [["k", 4]]}, "store": None,
            "bodies": [["mul", ["load", "a", ["axis", "i"], ["axis", "k"]],
                        ["load", "b", ["axis", "k"], ["axis", "j"]]]],
        }],
        "outputs": ["c"], "values": 1,
    }  # fmt: skip
    inputs = inputs_of(case)
    found = evaluate(case, inputs)["c"]
    exact = inputs["a"].astype(np.float64) @ inputs["b"].astype(np.float64)
    assert np.abs(found.value - exact).max() < 1e-14
    assert (np.abs(inputs["a"] @ inputs["b"] - exact) <= found.error).all()
    assert found.error.max() < 1e-5
    case["stages"][0]["reduce"]["axes"] = [["k", 5]]
    with pytest.raises(ProgramError, match="extent 4"):
        evaluate(case, inputs)


def test_minimise_takes_every_step_that_still_fails():
    def shorter(case):
        for n in range(len(case["items"])):
            yield {"items": case["items"][:n] + case["items"][n + 1 :]}

    def fails(case):
        return {3, 7} <= set(case["items"])

    whole = {"items": list(range(10))}
    assert minimise(whole, shorter, fails, lambda: True) == {"items": [3, 7]}
    assert minimise(whole, shorter, fails, lambda: False) == whole


def test_a_kept_case_comes_back(tmp_path: Path):
    path = keep(tmp_path / "new", "tensor", 5, Verdict("wrong", "off"), {"x": [1, "ü"]})
    assert kept(path.parent) == [(path.name, "tensor", {"x": [1, "ü"]})]
