"""Every case that the campaign ever found and kept is right by now."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from campaign.job import Job
from campaign.keep import kept
from campaign.parts import entry

# A whole session of tuning, 4 s; a test of the tuner kills what measures, too.
LONG = ("kills-wrong-73e5cb76.json",)
CASES = [
    pytest.param(part, case, id=name, marks=[pytest.mark.slow] * (name in LONG))
    for name, part, case in kept(Path(__file__).parent)
]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    job = Job(tmp_path_factory.mktemp("regressions") / "log")
    yield job
    job.close()


@pytest.mark.parametrize(("part", "case"), CASES)
def test_kept_case(part: str, case: dict, job: Job) -> None:
    verdict = job.judge(entry(part), case)
    assert not verdict.failed, verdict
