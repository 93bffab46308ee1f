"""The workers of the machines as Ray's actors: one a machine, which reserves all of it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from autosched.fleet.build_worker import BuildWorker
from autosched.fleet.errors import FleetError, MachineLostError
from autosched.fleet.machine import FleetMachine
from autosched.fleet.work import Answer, Work
from autosched.fleet.worker import MachineWorker
from autosched.measure.options import MeasureOptions
from autosched.system.user_warnings import notify
from sketch.target.target import Target

# A process that imports us, and one that has imported what measures, on a slow machine.
_START_S: Final = 30.0


class RayCrew:
    """Workers on machines of a cluster; see ``runner.Crew``.

    Machines that another tuner has reserved, or that cannot time the target, are left out with a
    warning.

    Args:
        machines: that may serve.
        target: of the candidates.
        options: how to measure.
        builders: machines that compile for the others; none: each builds what it times.

    Raises:
        FleetError: none of them can.
    """

    def __init__(
        self,
        machines: Sequence[FleetMachine],
        target: Target,
        options: MeasureOptions,
        builders: Sequence[FleetMachine] = (),
    ) -> None:
        self._actors = {machine.name: _started(MachineWorker, machine) for machine in machines}
        self._builders = [_started(BuildWorker, machine, options) for machine in builders]
        self._built: dict[Work, Any] = {}
        self._announced = 0
        opened = {
            self._actors[m.name].open.remote(target, options, m.gpus > 0): m.name for m in machines
        }
        missing = dict.fromkeys(self._actors, "another tuner has reserved it")
        for name, text in _texts(opened).items():
            missing[name] = text
        for name, text in missing.items():
            if text:
                _kill(self._actors.pop(name))
        told = [
            f"machine {name} does not measure: {text}" for name, text in missing.items() if text
        ]
        if not self._actors:
            raise FleetError("no machine of the fleet can measure", "; ".join(told))
        notify(told)

    @property
    def machines(self) -> Sequence[str]:
        return tuple(self._actors)

    def announce(self, work: Work) -> None:
        """Let one of the builders build it; they take turns."""
        if self._builders and work.kind == "measure":
            builder = self._builders[self._announced % len(self._builders)]
            self._announced += 1
            self._built[work] = builder.build.remote(work)

    def work(self, machine: str, work: Work, best_s: float) -> Answer:
        """What one machine finds; see ``Crew``."""
        built = self._built.pop(work, None)
        if built is not None:
            with suppress(*lost()):  # the builder is lost: it is built there
                return self._answer(machine, work, best_s, built)
        try:
            return self._answer(machine, work, best_s, None)
        except lost() as error:
            raise MachineLostError(f"machine {machine} is lost: {first_line(error)}") from error

    def _answer(self, machine: str, work: Work, best_s: float, built: Any) -> Answer:
        """``built``: reference of the kernels, which Ray moves from machine to machine."""
        import ray

        answer: Answer = ray.get(self._actors[machine].work.remote(work, best_s, built))
        return answer

    def close(self) -> None:
        """End the workers; what they measure is not waited for."""
        for actor in (*self._actors.values(), *self._builders):
            _kill(actor)


def _started(worker: type, machine: FleetMachine, *arguments: Any) -> Any:
    """An actor on that machine and nowhere else, which has all of it to itself."""
    import ray

    return (
        ray.remote(worker)
        .options(
            num_cpus=machine.cpus, num_gpus=machine.gpus, scheduling_strategy=on_node(machine.node)
        )
        .remote(*arguments)
    )


def on_node(node: str) -> Any:
    """Ray's strategy of scheduling on the machine of that name, and on no other."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node, soft=False)


def _texts(opened: dict[Any, str]) -> dict[str, str]:
    """By machine, what its worker said within the time: nothing, or why it cannot measure."""
    import ray

    ready, _ = ray.wait(list(opened), num_returns=len(opened), timeout=_START_S)
    found: dict[str, str] = {}
    for reference in ready:
        try:
            found[opened[reference]] = ray.get(reference)
        except lost() as error:
            found[opened[reference]] = first_line(error)
    return found


def lost() -> tuple[type[Exception], ...]:
    """What Ray raises where a machine, or the way to it, is lost."""
    import ray

    return ray.exceptions.RayError, OSError


def _kill(actor: Any) -> None:
    import ray

    ray.kill(actor)


def first_line(error: Exception) -> str:
    """What Ray says, without its pages on what to do; the last line of a traceback."""
    cause = getattr(error, "cause", None)
    lines = [line.strip() for line in str(cause or error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
