"""Building in the background: as many building children as there are CPUs."""

from __future__ import annotations

import dataclasses
import pickle
import time
from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial

from autosched.measure.child import Child
from autosched.measure.child_pool import Borrow, ChildPool
from autosched.measure.errors import ChildDiedError, ChildTimeoutError
from autosched.measure.options import MeasureOptions
from autosched.measure.result import Failure
from autosched.measure.zygote import Zygote
from autosched.tasks.candidate import Candidate
from sketch.schedule.decision import DecisionId
from sketch.schedule.sketch import Sketch

Built = bytes | Failure
"""A pickled ``codegen.kernel.CompiledKernel``, or why there is none.

The tuner never unpickles it.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class TimedBuild:
    """A kernel, or why there is none, and the seconds that its compiler took; None: unknown."""

    built: Built
    seconds: float | None = None


class SketchCache:
    """Pickles of sketches, each made once."""

    def __init__(self) -> None:
        self._payloads: dict[str, bytes] = {}

    def payload(self, sketch: Sketch) -> bytes:
        """The pickled sketch, without what it has cached."""
        if sketch.key not in self._payloads:
            self._payloads[sketch.key] = pickle.dumps(dataclasses.replace(sketch))
        return self._payloads[sketch.key]


class BuildPool:
    """Building children, as many as there are CPUs.

    Args:
        zygote: forks them.
        build_reference: names the function that builds (`function_reference.reference_of`).
        count: of children.
        options: time limits.
    """

    def __init__(
        self, zygote: Zygote, build_reference: str, count: int, options: MeasureOptions
    ) -> None:
        self._options = options
        self._children = ChildPool(zygote, "build", build_reference, count)

    def build(self, candidate: Candidate, payload: bytes) -> Future[TimedBuild]:
        """Start building; ``payload`` is the pickled sketch."""
        values = {name: int(value) for name, value in candidate.values.items()}
        return self._children.submit(partial(self._build, candidate.sketch.key, payload, values))

    def reference(self, dag: bytes, seed: int) -> Future[Built]:
        """Start computing the oracle's result (a pickled ``Reference``) of a pickled DAG."""
        return self._children.submit(partial(self._reference, dag, seed))

    def work(self, function: str, payload: bytes) -> Future[bytes | None]:
        """Start whatever a function makes of bytes; None where it fails."""
        return self._children.work(function, payload, self._options.build_timeout_s)

    def _build(
        self, key: str, payload: bytes, values: Mapping[DecisionId, int], borrow: Borrow
    ) -> TimedBuild:
        limit = self._options.build_timeout_s

        def build(child: Child) -> TimedBuild:
            child.define("sketch", key, key, payload, timeout_s=limit)
            began = time.perf_counter()
            built: Built = child.call("build", key, values, timeout_s=limit)
            return TimedBuild(built, time.perf_counter() - began)

        try:
            return borrow(build)
        except ChildDiedError as error:
            died = f"the compiler died: {error.output}"
            return TimedBuild(Failure("compile", error.kind, died))
        except ChildTimeoutError:
            return TimedBuild(Failure("timeout", "build", f"not built in {limit:g} s"))

    def _reference(self, dag: bytes, seed: int, borrow: Borrow) -> Built:
        limit = self._options.reference_timeout_s
        try:
            return borrow(lambda child: child.call("reference", dag, seed, timeout_s=limit))
        except ChildDiedError as error:
            return Failure("verify", error.kind, f"the oracle died: {error.output}")
        except ChildTimeoutError:
            return Failure("timeout", "reference", f"no reference in {limit:g} s")

    def cancel(self) -> None:
        """Drop what waits to be built."""
        self._children.cancel()

    def join(self) -> None:
        """Wait for what is being built, and let go of the children that the zygote ended with it.

        What is being built fails at once where the zygote was closed.
        """
        self._children.join()
