"""Fixtures of the tests of compilation."""

from __future__ import annotations

import pytest

from autosched.compilation import side_processes


@pytest.fixture(autouse=True)
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks compile here alone: what a test changes is unknown to processes beside this one,
    which start where a machine is slow.
    """
    monkeypatch.setattr(side_processes, "usable_cpus", lambda: 1)
