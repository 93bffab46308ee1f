"""LightGBM loads fast for the tuner and whole for everybody else."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest

from costmodel.lightgbm_alone import _loaded

SCRIPT = """
import sys
from costmodel.gbdt import GradientBoostedModel
from costmodel.lightgbm_alone import load_lightgbm
alone = load_lightgbm()
print("lightgbm" in sys.modules, "sklearn" in sys.modules, "pandas" in sys.modules)
print(alone is load_lightgbm(), alone.Booster.__module__)
import lightgbm
from sklearn.base import BaseEstimator
print(alone is lightgbm, issubclass(lightgbm.LGBMRegressor, BaseEstimator))
"""

IN_THREADS = """
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from costmodel.lightgbm_alone import load_lightgbm
together = Barrier(8)
def load(_):
    together.wait()
    return load_lightgbm()
with ThreadPoolExecutor(8) as threads:
    print(len(set(map(id, threads.map(load, range(8))))), "lightgbm" in sys.modules)
"""


def output_of(script: str) -> list[str]:
    command = [sys.executable, "-c", script]
    result = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return result.stdout.splitlines()


def test_nobody_else_gets_the_module_without_its_wrappers() -> None:
    assert output_of(SCRIPT) == [
        "False False False",
        "True lightgbm.basic",
        "False True",
    ]


def test_threads_that_begin_together_get_one_module() -> None:
    assert output_of(IN_THREADS) == ["1 False"]


def test_a_module_that_is_loaded_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = ModuleType("lightgbm")
    monkeypatch.setitem(sys.modules, "lightgbm", loaded)
    assert _loaded.__wrapped__() is loaded


@pytest.mark.slow
def test_the_module_that_is_loaded_has_its_wrappers() -> None:
    script = "import lightgbm" + SCRIPT
    assert output_of(script)[-1] == "True True"
