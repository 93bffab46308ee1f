"""Features change together with their version: files of an old version hold other numbers.

``tests/golden/features.json`` holds rows of schedules, so that other sketches or samples change
nothing: {"version", "programs": [{"program", "arguments", "target", "steps", "decisions", "rows",
"features": one number for each feature that is not 0}]}.  Where a formula changes, raise
``_REVISION`` in ``costmodel.feature_table``, then run this with ``--update-golden``.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costmodel.extract import extract
from costmodel.feature_table import FEATURE_NAMES, FEATURE_VERSION
from sketch.lower import lower
from sketch.population.population import from_rows
from sketch.schedule.sketch import sketch_from_steps
from sketch.schedule.step_reading import steps_from_json
from sketch.target.gpu_targets import cuda_target
from tests.support import units, workloads
from tests.support.targets import AVX512

FILE = Path(__file__).parents[2] / "golden" / "features.json"
STORED: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
TARGETS = {
    "cpu": AVX512,
    "cuda:h200": cuda_target("h200"),
    "sm_75": cuda_target("sm_75"),
    "vectors of bytes": units.WIDE,
    "tiles": units.TILES,
}
NAMES = [f"{p['program']} {p['target']}" for p in STORED["programs"]]

_MOST_MISSING = 12
_SLOT = re.compile(r"buffer\d")


def features(stored: dict[str, Any]) -> dict[str, float]:
    """Each feature that is not 0, summed over statements and rows, these with weights 1, 2, ..."""
    source = workloads if hasattr(workloads, stored["program"]) else units
    dag = getattr(source, stored["program"])(*stored["arguments"])
    steps, decisions = steps_from_json(dag, stored["steps"], stored["decisions"])
    sketch = sketch_from_steps(dag, steps, "direct", TARGETS[stored["target"]])
    rows = from_rows(sketch, [dict(zip(decisions, row, strict=True)) for row in stored["rows"]])
    found = extract(lower(sketch, rows.columns()), rows.count, dag, sketch.target)
    weights = np.arange(1.0, rows.count + 1)
    sums = (found.values.astype(np.float64) @ weights).sum(axis=0)
    return {name: float(s) for name, s in zip(FEATURE_NAMES, sums, strict=True) if s}


def differing(old: dict[str, float], new: dict[str, float]) -> list[str]:
    both = sorted(old.keys() | new.keys())
    return [n for n in both if not np.isclose(old.get(n, 0.0), new.get(n, 0.0), rtol=1e-5, atol=0)]


@pytest.fixture(scope="module")
def found() -> list[dict[str, float]]:
    return [features(stored) for stored in STORED["programs"]]


def test_features_of_a_version_stay_as_they_are(
    found: list[dict[str, float]], request: pytest.FixtureRequest
) -> None:
    if STORED["version"] != FEATURE_VERSION and request.config.getoption("--update-golden"):
        programs = [
            {**p, "features": {name: float(f"{value:.9g}") for name, value in new.items()}}
            for p, new in zip(STORED["programs"], found, strict=True)
        ]
        lines = ",\n".join(json.dumps(p, separators=(",", ":")) for p in programs)
        text = f'{{"version":"{FEATURE_VERSION}","programs":[\n{lines}\n]}}\n'
        FILE.write_text(text, encoding="utf-8")
        return
    changed = {
        name: different
        for name, stored, new in zip(NAMES, STORED["programs"], found, strict=True)
        if (different := differing(stored["features"], new))
    }
    if STORED["version"] == FEATURE_VERSION:
        assert not changed, "features changed: raise _REVISION, then run with --update-golden"
    assert STORED["version"] == FEATURE_VERSION, "run with --update-golden"


def test_nearly_every_feature_is_covered(found: list[dict[str, float]]) -> None:
    """What is 0 in all programs could change unseen; slots of buffers are computed alike."""
    seen = {_SLOT.sub("buffer", name) for each in found for name in each}
    missing = {_SLOT.sub("buffer", name) for name in FEATURE_NAMES} - seen
    assert len(missing) < _MOST_MISSING, missing


def test_a_change_is_noticed(found: list[dict[str, float]]) -> None:
    name, value = next(iter(found[0].items()))
    assert differing(found[0], {**found[0], name: value * 1.0001}) == [name]
