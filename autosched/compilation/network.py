"""From a network to a module: graph passes, a schedule for every task, machine code, memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from math import inf, sqrt
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from autosched.compilation.ahead import ExpectedAhead
from autosched.compilation.alternatives import alternatives
from autosched.compilation.check import WrongResultError, device_of
from autosched.compilation.kernels import Kernels
from autosched.compilation.recorded import (
    accuracies,
    allowed_records,
    best_known,
    other_variants,
    recorded,
)
from autosched.compilation.released import released
from autosched.compilation.scheduled import Built, Scheduled, UnbuildableRecordError
from autosched.compilation.side_processes import SideProcesses
from autosched.compilation.unmeasured import accepted, all_unmeasured
from autosched.compilation.whole_error import add_errors, error_of, held, runs_here
from autosched.compilation.wires import wire
from autosched.graph.extract import Extraction, extract
from autosched.measure.result import CacheState
from autosched.records.accuracy import ACCURACIES, Accuracy
from autosched.records.best import target_warning
from autosched.records.error_budget import allowed_in_network
from autosched.records.store import AnyLog, open_store
from autosched.runtime.archive import Contents
from autosched.runtime.assemble import assemble, check_no_nan
from autosched.runtime.backend import runtime_of
from autosched.runtime.link import link
from autosched.runtime.module import Module
from autosched.runtime.untuned import untuned_warning
from autosched.system.limits import check_choice
from autosched.system.memory_limit import enough_memory
from autosched.system.user_warnings import notify
from autosched.tasks.spec import TaskSpec
from sketch.rules.backend import algorithms_of, sketch_backend
from sketch.target.target import Target
from sketch.target.units import multiplied_halves

if TYPE_CHECKING:
    from autosched.graph.ir import Network
    from autosched.records.record import Record
    from codegen.gpu.protocol import Device

_Item = TypeVar("_Item")
_Made = TypeVar("_Made")


class _Known(NamedTuple):
    """Records that may be used: of a log, and of the release."""

    of_log: Sequence[Record]
    of_release: Sequence[Record] = ()

    def without(self, record: Record) -> _Known:
        """All but those of the same candidate."""
        key = record.candidate_key
        return _Known(*([r for r in source if r.candidate_key != key] for source in self))


def network_tasks(extraction: Extraction, target: Target) -> tuple[TaskSpec, ...]:
    """The distinct tasks of a network, each named after the first place where it occurs."""
    names: dict[int, str] = {}
    for subgraph in extraction.subgraphs:
        names.setdefault(id(subgraph.dag), subgraph.name)
    return tuple(
        TaskSpec(item.dag, target, names[id(item.dag)], item.weight) for item in extraction.tasks
    )


def cache_state_of(extraction: Extraction, target: Target) -> CacheState:
    """What the caches still hold of the constants when their turn comes again in the next run.

    Between two uses of a constant all others and all activations pass through the caches.
    """
    constants = sum(array.nbytes for array in extraction.constants.values())
    return runtime_of(target).cache_state(constants, target)


def extract_checked(network: Network, target: Target) -> Extraction:
    """The network's kernel calls on such a machine; raises AssemblyError on weights that are NaN or
    become so.
    """
    check_no_nan(network.graph.constants)
    backend = sketch_backend(target)
    cache_bytes = target.l2_bytes * target.threads if backend.chains else None
    units = multiplied_halves(target) if backend.widens else None
    extraction = extract(network, backend.chains, cache_bytes, algorithms_of(target), units)
    check_no_nan(extraction.constants)  # folding may divide by zero
    return extraction


def compile_network(
    network: Network,
    target: Target,
    records: Sequence[Record] = (),
    accuracy: Accuracy = "default",
) -> Module:
    """Compile ``network`` for ``target`` with the best of ``records``, where they have any.

    Args:
        network: what is compiled.
        target: for which machine.
        records: of tuning.
        accuracy: records of variants that it does not allow are not used.
    """
    return link(*network_contents(network, target, records, accuracy=accuracy))


def contents_from_log(
    network: Network,
    target: Target,
    log: AnyLog | None,
    quick: bool = False,
    check: bool = True,
    accuracy: Accuracy = "default",
) -> Contents:
    """``network_contents`` with the records of a log, if one is given.

    Warns of a log that does not exist or has no record of the network, of lines that cannot be
    read, of a log without a record of the target, of records that do not replay, and of tasks that
    are left without a record.

    Args:
        network: what is compiled.
        target: for which machine.
        log: its path or URL; None: the draft model picks every schedule.
        quick: the draft model sees few candidates.
        check: run kernels that no one compared with the oracle yet, on sampled regions.
        accuracy: records of variants that it does not allow are not used.
    """
    if log is None:
        return network_contents(network, target, (), quick, check, accuracy)
    found: list[Record] = []
    named, store = f"network {network.name}", open_store(log)

    def read(tasks: Collection[str]) -> Sequence[Record]:
        best = store.read_best(tasks, target)
        unmatched = best.unmatched(store.name, named) if tasks else ""
        notify((*best.warnings, *filter(None, [unmatched])))
        found.extend(best.records)
        return best.records

    contents = network_contents(network, target, read, quick, check, accuracy)
    tasks = {step.info.task for step in contents[0].kernel_steps}
    mine = [record for record in found if record.task in tasks]
    lines = target_warning(mine, target), untuned_warning(contents[0])
    notify(f"{named}: {line}" for line in lines if line)
    return contents


def network_contents(
    network: Network,
    target: Target,
    records: Sequence[Record] | Callable[[Collection[str]], Sequence[Record]] = (),
    quick: bool = False,
    check: bool = True,
    accuracy: Accuracy = "default",
    of_release: bool = True,
) -> Contents:
    """All that a compiled network consists of, for any machine.

    Args:
        network: what to compile.
        target: for which machine.
        records: of tuning; or what gives those of tasks, by their keys.
        quick: choose the schedules of tasks without a record from few candidates.
        check: run each kernel without a record once and compare a sample of its results with the
            oracle's; not for targets whose code cannot run here.
        accuracy: records of variants that it does not allow are not used.
        of_release: tasks without a record get schedules that come with the release, if it has any.

    Raises:
        OptionError: ``accuracy`` is no such word.
        AssemblyError: weights are NaN.
        WrongResultError: a kernel computes something else than its task says.
    """
    check_choice("accuracy", accuracy, ACCURACIES)
    with enough_memory(f"compiling network {network.name}"):
        extraction = extract_checked(network, target)
        state = cache_state_of(extraction, target)
        tasks = network_tasks(extraction, target)
        limits = accuracies(extraction, tasks, accuracy)
        if callable(records):
            records = records([task.key for task in tasks])
        left = allowed_records(limits, records)
        keys = [task.key for task in tasks] if of_release else []
        shipped = allowed_records(limits, released(keys, target))
        limit = allowed_in_network(accuracy)
        with SideProcesses() as processes:
            kernels = Kernels(processes)
            build = partial(
                build_contents, network.name, extraction, target, check, accuracy, kernels
            )

            def choose(tasks: Sequence[TaskSpec], records: _Known) -> list[Scheduled]:
                known = [best_known(task, *records, state) for task in tasks]
                lacking = {
                    task: limits[task]
                    for task, item in zip(tasks, known, strict=True)
                    if item is None
                }
                drafts = iter(all_unmeasured(lacking, quick, check, processes))
                return [next(drafts) if item is None else item for item in known]

            def contents_of(scheduled: Sequence[Scheduled], records: _Known) -> Contents:
                contents, items = build(scheduled)
                accurate = None
                if check:
                    accurate = held(
                        contents,
                        items,
                        limit,
                        lambda some: alternatives(some, records.of_log, state, quick, processes),
                    )
                if accurate is None:
                    return contents
                del contents  # its constants
                return build(accurate)[0]

            return _with_buildable(tasks, _Known(left, shipped), choose, contents_of)


def error_limits(
    network: Network, target: Target, records: Sequence[Record], accuracy: Accuracy
) -> dict[str, float]:
    """The largest error that each task may have, by its key, where the fastest recorded schedules
    of all tasks together add more to the outputs of a network than ``accuracy`` allows.

    There is none of tasks that may keep theirs, nor where some task has no record.  The error lies
    between the one that is too large and that of the variant to use instead, which may only be
    estimated.

    Args:
        network: what is tuned.
        target: for which machine.
        records: of all of its tasks.
        accuracy: what is allowed.

    Raises:
        AssemblyError: weights are NaN.
    """
    limit = allowed_in_network(accuracy)
    if limit == inf or not runs_here(target):
        return {}
    with enough_memory(f"compiling network {network.name}"):
        extraction = extract_checked(network, target)
        state = cache_state_of(extraction, target)
        tasks = network_tasks(extraction, target)
        left = allowed_records(accuracies(extraction, tasks, accuracy), records)
        build = partial(
            build_contents, network.name, extraction, target, False, accuracy, Kernels()
        )

        def limits_of(found: Sequence[Scheduled | None], records: _Known) -> dict[str, float]:
            best = [item for item in found if item is not None]
            if len(best) < len(tasks) or not add_errors(best):  # some may be left out of a run
                return {}
            contents, items = build(best)
            accurate = held(
                contents,
                items,
                limit,
                lambda some: [list(other_variants(item, records.of_log, state)) for item in some],
            )
            pairs = zip(items, accurate or items, strict=True)
            return {
                now.task.key: sqrt(error_of(now, before) * error_of(before))
                for before, now in pairs
                if error_of(now, before) < error_of(before)
            }

        return _with_buildable(
            tasks,
            _Known(left),
            lambda tasks, records: [recorded(task, records.of_log, state) for task in tasks],
            limits_of,
        )


def _with_buildable(
    tasks: Sequence[TaskSpec],
    records: _Known,
    choose: Callable[[Sequence[TaskSpec], _Known], Sequence[_Item]],
    make: Callable[[Sequence[_Item], _Known], _Made],
) -> _Made:
    """What is made of the schedules of tasks, without records that no code can be made of.

    Args:
        tasks: of a network.
        records: of a log, and of a release.
        choose: schedules of tasks, from such records.
        make: raises UnbuildableRecordError for such a record.
    """
    items, left = dict(zip(tasks, choose(tasks, records), strict=True)), records
    while True:
        try:
            return make(tuple(items.values()), left)
        except UnbuildableRecordError as error:
            notify([str(error)])
            left = left.without(error.record)
            again = [task for task in tasks if task.key == error.record.task]
            items |= zip(again, choose(again, left), strict=True)


def build_contents(
    name: str,
    extraction: Extraction,
    target: Target,
    check: bool,
    accuracy: Accuracy,
    kernels: Kernels,
    scheduled: Sequence[Scheduled],
) -> tuple[Contents, list[Scheduled]]:
    """Machine code for every task, and how kernels are connected; and the schedules that the tasks
    have after checks.

    Args:
        name: of the network.
        extraction: tasks and how their values are connected.
        target: for which machine.
        check: run kernels that no one compared with the oracle yet, on sampled regions.
        accuracy: the error budget of variants without a record.
        kernels: of earlier calls, which are used again; those of this one are added.
        scheduled: a schedule for each task.
    """
    done = {built.item for built in kernels.accepted.values()}
    unchecked = [
        item.task
        for item in scheduled
        if check and not (item in done or item.checked or item.judged_by_errors)
    ]
    with ExpectedAhead(unchecked) as ahead, device_of(target) as device:

        def accept(built: Built) -> Scheduled:
            if not check or built.item.checked:
                return built.item
            return _accepted(built, accuracy, ahead, device)

        wires = wire(name, extraction, scheduled, target, accept, kernels)
    program, packed = assemble(wires.wiring)
    payloads = {call.name: call.function.payload for call in extraction.host_calls}
    objects = wires.objects | runtime_of(target).common(target)
    items = {kernel.item.task: kernel.item for kernel in wires.kernels.values()}
    return (program, packed, objects, payloads), list(items.values())


def _accepted(
    built: Built, accuracy: Accuracy, ahead: ExpectedAhead, device: Device | None
) -> Scheduled:
    """``accepted``; a record whose kernel is wrong cannot be used."""
    try:
        return accepted(built, accuracy, ahead, device)
    except WrongResultError as error:
        if built.item.recalled is None:
            raise
        raise UnbuildableRecordError(built.item.recalled.record, error) from error
