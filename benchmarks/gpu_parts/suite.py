"""The GPU test suite, alone and under compute-sanitizer's checkers."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

from benchmarks.gpu_parts.bench import Bench
from benchmarks.gpu_parts.limited import run_limited
from benchmarks.gpu_parts.row_log import Row

ROOT: Final = Path(__file__).parents[2]
# By name, so that tests that are not through by then say how far they were.
_TESTS: Final = ("-m", "pytest", "-v", "-p", "no:cacheprovider")
# A file's tests in one process: two must not measure on one GPU at a time.
_PARALLEL: Final = ("-n", "3", "--dist", "loadfile")
_ONE_PROCESS: Final = ("-n", "0")
_SANITIZER: Final = "compute-sanitizer"
_INSTALLED: Final = Path("/usr/local/cuda/bin") / _SANITIZER
# What compute-sanitizer ends with when it finds something.
_FOUND: Final = 77
# Faults on purpose are none of the checkers' business, and tuning takes too long under them.
_CHECKED: Final = "programs or modules"
# Tests ask for more memory than there is: an error that the driver returns is none.
_OPTIONS: Final = ("--target-processes", "all", "--report-api-errors", "no")
_LAST_LINES: Final = 30
# Of the time: the suite itself, then each checker.
_SHARES: Final = {"tests": 1.0, "memcheck": 0.5, "racecheck": 1.0}


def run(bench: Bench) -> Iterator[Row]:
    """A row for the tests, and one for each checker."""
    for name in (name for name, _ in bench.turns(list(_SHARES))):
        seconds = bench.left * _SHARES[name]
        if name == "tests":
            spread = _ONE_PROCESS if bench.small else _PARALLEL
            yield _tested(name, [*_words(bench), *spread], seconds)
        elif bench.small:
            yield {"name": name, "done": True, "rival": "no device code runs on an emulated device"}
        elif (found := shutil.which(_SANITIZER) or _at(_INSTALLED)) is None:
            yield {"name": name, "done": True, "rival": f"no rival here: {_SANITIZER} is not here"}
        else:
            options = ["--tool", name, "--error-exitcode", str(_FOUND), *_OPTIONS]
            words = [found, *options, *_words(bench), *_ONE_PROCESS, "-k", _CHECKED]
            yield _tested(name, words, seconds)


def _at(path: Path) -> str | None:
    return str(path) if path.exists() else None


def _words(bench: Bench) -> list[str]:
    marked = "not gpu and not slow" if bench.small else "gpu"
    return [sys.executable, *_TESTS, "-m", marked, str(ROOT / "tests" / "gpu")]


def _tested(name: str, words: Sequence[str], seconds: float) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        row: Row = {"name": name, "done": False, "at_most_s": seconds}
        ended = run_limited([*words, f"--junitxml={report}"], seconds, ROOT)
        if ended.status is None:
            error = f"not through after {seconds:.0f} s"
            return row | {"error": error, "end": ended.lines[-_LAST_LINES:]}
        row |= {"done": True, "exit": ended.status}
        row |= counts(report) if report.exists() else {}
        # Where all are skipped, nothing was found to be clean.
        row["clean"] = ended.status == 0 and row.get("tests", 0) > row.get("skipped", 0)
        if not row["clean"]:
            row["end"] = ended.lines[-_LAST_LINES:]
        return row


def counts(report: Path) -> dict[str, Any]:
    """Tests, failures, errors, skipped and seconds of a JUnit file."""
    suite = next(ElementTree.parse(report).iter("testsuite"))
    numbers: dict[str, Any] = {
        key: int(suite.get(key, 0)) for key in ("tests", "failures", "errors", "skipped")
    }
    return numbers | {"seconds": float(suite.get("time", 0.0))}
