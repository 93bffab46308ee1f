"""Fixtures shared by all tests."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Tests run on all cores: threads of a BLAS or an OpenMP that spin while they wait for a core cost
# several times what they compute.  These are read when the libraries are loaded, so before NumPy.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np

from tests.support.examples import PROFILES

# Tests start hundreds of child processes: these read our modules compiled, where that is allowed.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell ignores interrupts for what it runs in the background, nohup does hang-ups: the children
# that tests send signals to would inherit that.
_USUAL: dict[signal.Signals, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGHUP: signal.SIG_DFL,
}
for number, usual in _USUAL.items():
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)

# Failures in the suites that users derive from show values, too.
pytest.register_assert_rewrite("autosched.testing")

# The same cases every time, however slow the machine is; `make campaign` draws new ones.
for profile, percent in PROFILES.items():
    settings.register_profile(
        profile,
        max_examples=percent,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile("suite")

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite tests/golden with what tests produce"
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Not by marks of groups: with them it depends on the versions of pytest and pytest-xdist
    whether they are heeded.
    """
    from tests.support.scheduling import Groups

    return Groups(config, log)


def pytest_collection_finish() -> None:
    """What is loaded by now stays: the collector need not look at it again and again; and at what
    tests keep for others, such as spaces and kernels, less often than by default.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(2_000, 10, 50)


@pytest.fixture(scope="session", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home of the tests' own, for child processes too: saved modules leave a key there.

    Caches of other software (fonts, kernels) stay where they are.
    """
    cache = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", cache)
        patch.setenv("HOME", str(folder))
        yield folder


@pytest.fixture(scope="module", autouse=True)
def loaded_modules(request: pytest.FixtureRequest) -> None:
    """What the file names by ``lazily``."""
    from tests.support.lazily import load_modules_of

    load_modules_of(request.module)


@pytest.fixture(scope="session", autouse=True)
def shared_work() -> Iterator[None]:
    """Spaces of equal tasks and code of equal text are made once in a process."""
    from tests.support import shared_work

    with shared_work.shared_work():
        yield


@pytest.fixture(scope="session")
def torchlib() -> Iterator[None]:
    """Modules are exported in less time."""
    from tests.support.torch_exports import looked_up_once

    with looked_up_once():
        yield


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """``golden(name, text)``: compare with tests/golden/<test file>/<name>.txt."""
    folder = GOLDEN / request.path.stem.removeprefix("test_")

    def check(name: str, text: str) -> None:
        path = folder / f"{name}.txt"
        if request.config.getoption("--update-golden"):
            folder.mkdir(parents=True, exist_ok=True)
            path.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
            return
        if not path.exists():
            pytest.fail(f"{path} does not exist; run pytest with --update-golden")
        assert text.rstrip("\n") == path.read_text(encoding="utf-8").rstrip("\n"), (
            f"differs from {path}; if that is right, run pytest with --update-golden"
        )

    return check


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)
