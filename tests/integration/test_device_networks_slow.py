"""Networks of the zoo on the emulated device: the results are those of the CPU."""

from __future__ import annotations

import numpy as np
import pytest

import autosched as asd
from autosched.graph.evaluate import evaluate
from autosched.zoo import build

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("name", "image"), [("resnet-18", 32), ("mobilenet-v2", 32), ("bert-base", 8)]
)
def test_networks_of_the_zoo(name: str, image: int) -> None:
    network = build(name, image=image)
    module = asd.compile(network, "cuda:h200", device="emulated", effort="none")
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
