"""Networks of the zoo on the emulated device, partly tuned: the results are those of the CPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import autosched as asd
from autosched.graph.evaluate import evaluate
from autosched.tuning.options import QUICK
from autosched.zoo import build

pytestmark = pytest.mark.slow

_TRIALS = 12  # each of another task
_OPTIONS = replace(QUICK, search=replace(QUICK.search, batch_trials=1))


@pytest.mark.parametrize(
    ("name", "image"), [("resnet-18", 32), ("mobilenet-v2", 32), ("bert-base", 8)]
)
def test_networks_of_the_zoo(name: str, image: int, tmp_path: Path) -> None:
    network, log = build(name, image=image), tmp_path / "log.jsonl"
    tuning = {"trials": _TRIALS, "log": log, "options": _OPTIONS, "quiet": True}
    asd.tune(network, "cuda:h200", device="emulated", **tuning)
    tasks = len(asd.extract_tasks([network], asd.Target("cuda:h200", device="emulated")))
    module = asd.compile(network, "cuda:h200", device="emulated", log=log, effort="none")
    assert len(module.untuned) < tasks
    inputs = module.random_inputs()
    expected = evaluate(network.graph, inputs)
    found = module.run(inputs)
    for output, array in expected.items():
        assert np.abs(found[output] - array).max() <= 1e-5 * np.abs(array).max(), output


def test_a_profile_of_resnet() -> None:
    module = asd.compile(
        build("resnet-18", image=32), "cuda:h200", device="emulated", effort="none"
    )
    profile = module.profile(repeats=2)
    steps = sum(row.microseconds for row in profile.rows)
    assert steps == pytest.approx(profile.total.microseconds, rel=0.03)
