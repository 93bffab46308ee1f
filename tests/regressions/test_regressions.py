"""Every case that the campaign ever found and kept is right by now."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from campaign.job import Job
from campaign.keep import kept
from campaign.parts import entry

CASES = kept(Path(__file__).parent)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    job = Job(tmp_path_factory.mktemp("regressions") / "log")
    yield job
    job.close()


@pytest.mark.parametrize(("part", "case"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_kept_case(part: str, case: dict, job: Job) -> None:
    verdict = job.judge(entry(part), case)
    assert not verdict.failed, verdict
