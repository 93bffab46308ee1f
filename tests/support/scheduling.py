"""Which tests run in one process, where pytest-xdist runs them in several."""

from __future__ import annotations

from pathlib import PurePosixPath

from xdist.scheduler import LoadScopeScheduling


def group_of(nodeid: str) -> str:
    """The tests that run in one process with a test, by name.

    They are those of its file, which computes what they share once; all tests with torch, which
    takes seconds to load and to warm up; and all tests of the sources, which are parsed once.
    """
    path, _, name = nodeid.partition("::")
    file = PurePosixPath(path)
    if "torch" in file.stem or "torch" in name:
        return "torch"
    return str(file.parent) if file.parent.name == "architecture" else path


class Groups(LoadScopeScheduling):
    """Gives a process that has run its tests the next group."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
