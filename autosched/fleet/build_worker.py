"""What runs on a machine that compiles for others."""

from __future__ import annotations

from autosched.fleet.work import Work
from autosched.measure.build_pool import BuildPool, SketchCache, TimedBuild
from autosched.measure.options import MeasureOptions
from autosched.measure.runner import DEFAULT_BUILD
from autosched.measure.zygote import Zygote
from codegen.cpu_share import usable_cpus


class BuildWorker:
    """Builds candidates for any target on all cores of a machine, and times nothing.

    Args:
        options: time limits; the number of building processes is that of this machine's CPUs.
    """

    def __init__(self, options: MeasureOptions) -> None:
        self._pool = BuildPool(Zygote(), DEFAULT_BUILD, usable_cpus(), options)
        self._sketches = SketchCache()

    def build(self, work: Work) -> list[TimedBuild]:
        """The kernels of a piece of work, or why there are none, in order."""
        _, candidates = work.unpacked()
        pool, payload = self._pool, self._sketches.payload
        building = [pool.build(candidate, payload(candidate.sketch)) for candidate in candidates]
        return [future.result() for future in building]
