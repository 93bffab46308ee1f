"""What users call: ``extract_tasks``, ``tune``, ``compile``, ``load``, ``Target``.

Everything heavy is imported inside the functions, so that ``import autosched`` stays quick.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, cast, overload

from autosched.network_source import PathText, networks_of
from sketch.errors import TargetError, quoted
from sketch.target.target import Target as CodeTarget

if TYPE_CHECKING:
    from autosched.fleet.cluster import RayCluster
    from autosched.graph.precision import Precision, PrecisionOptions
    from autosched.measure.options import MeasureOptions
    from autosched.measure.protocol import Runner
    from autosched.network_source import AnyNetwork, SeveralNetworks
    from autosched.records.accuracy import Accuracy
    from autosched.report.callbacks import Callback
    from autosched.report.events import Progress
    from autosched.runtime.module import Module
    from autosched.search.models import AnyModel
    from autosched.task import Task
    from autosched.tuning.networks import NetworkTuning, SessionTuning
    from autosched.tuning.objectives import Objective
    from autosched.tuning.options import Effort, TuneOptions
    from codegen.denormals import Denormals
    from costmodel.extra_feature import ExtraFeature
    from sketch.target.gpu_targets import DeviceName

_Parameters = ParamSpec("_Parameters")
AnyTarget = str | CodeTarget


class _AnyTargetIsOne(type):
    """``isinstance(x, Target)`` holds for every target, however it was made."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, CodeTarget)


class NamedTarget(CodeTarget, metaclass=_AnyTargetIsOne):
    """A machine to make code for, by name: ``autosched.Target("cpu", threads=2)``.

    What it makes are values of ``sketch.target.target.Target``, whose fields are the numbers of
    the machine; ``isinstance`` takes all of them for targets.

        >>> two = asd.Target("cpu", threads=2)
        >>> two.threads, isinstance(two, asd.Target)
        (2, True)
        >>> asd.Target("cuda:h200").arch
        'sm_90'
    """

    __slots__ = ()

    def __new__(
        cls,
        name: str = "cpu",
        threads: int | None = None,
        arch: str | None = None,
        device: DeviceName | None = None,
    ) -> NamedTarget:
        """The target of that name.

        Args:
            name: ``"cpu"`` is this machine with all it has; ``"cpu-avx512"``, ``"cpu-avx2"``,
                ``"cpu-sse2"``, ``"cpu-neon"``, ``"cpu-neoverse-v1"`` are instruction sets;
                ``"cuda"`` is this GPU, ``"cuda:sm_90"``, ``"cuda:h200"`` an architecture, a card.
            threads: worker threads of a CPU; None: one for each CPU that this process may use.
            arch: of a GPU, ``"sm_90"``.
            device: ``"emulated"``: this machine's CPU stands in for the GPU: right results,
                estimated times.

        Raises:
            TargetError: an unknown name or device, fewer than one thread, or ``"cuda"`` where
                there is no GPU.
        """
        from codegen.named_targets import named_target

        made = named_target(name, threads, arch, device)
        return made  # type: ignore[return-value]  # see _AnyTargetIsOne


Target = NamedTarget


def resolve_target(
    target: AnyTarget, threads: int | None = None, device: DeviceName | None = None
) -> CodeTarget:
    """A target from a name or a target.

    Args:
        target: a name that ``Target`` knows, or a target.
        threads: worker threads, instead of the target's.
        device: ``"emulated"``: this machine's CPU stands in for the GPU; None: the target's.

    Raises:
        TargetError: no machine has that name, or it is none.
    """
    if isinstance(target, str):
        target = NamedTarget(target, threads)
    elif not isinstance(target, CodeTarget):
        raise TargetError(f"{quoted(target)} is no target", hint='give a name, such as "cpu"')
    elif threads is not None:
        target = target.with_threads(threads)
    if device is None:
        return target
    from sketch.target.gpu_targets import on_device

    return on_device(target, device)


def _place(
    fleet: RayCluster | None,
    target: AnyTarget,
    threads: int | None,
    device: DeviceName | None,
) -> CodeTarget:
    """``resolve_target``; a name means what it means among the machines of a fleet."""
    if fleet is None or not isinstance(target, str):
        return resolve_target(target, threads, device)
    return fleet.target(target, threads, device)


def extract_tasks(
    net: AnyNetwork | SeveralNetworks, target: AnyTarget = "cpu", threads: int | None = None
) -> tuple[Task, ...]:
    """The distinct tasks of a network, as ``tune`` finds them: each with its number of uses.

        >>> for task in asd.extract_tasks(asd.zoo.build("mlp", image=4)):
        ...     print(task.describe())
        dense_bias_relu.1 [1x512] 0.01741 MFLOP (direct)
        dense_bias_relu.2 [1x512] 0.5253 MFLOP (direct)
        dense_bias.1 [1x10] 0.01025 MFLOP (direct)

    Args:
        net: see ``compile``; or several networks, whose equal tasks are one.
        target: a name that ``Target`` knows, or a target.
        threads: worker threads, instead of the target's.

    Raises:
        AutoschedError: no network, NaN weights, an unknown target.
    """
    from autosched.compilation.network import extract_checked
    from autosched.task import Task
    from autosched.tuning.networks import shared_tasks

    machine = resolve_target(target, threads)
    extractions = [extract_checked(network, machine) for network in networks_of(net)]
    return tuple(Task.of(spec) for spec in shared_tasks(extractions, machine))


def compile(
    net: AnyNetwork | SeveralNetworks,
    target: AnyTarget = "cpu",
    log: PathText | None = None,
    threads: int | None = None,
    effort: Effort = "draft",
    check: bool = True,
    device: DeviceName | None = None,
    denormals: Denormals = "flush",
    accuracy: Accuracy = "default",
    precision: Precision | PrecisionOptions = "as written",
) -> Module:
    """Compile a network, or one network for several shapes of its inputs.

        >>> net = asd.zoo.build("mlp", image=4)
        >>> module = asd.compile(net, log="mlp.jsonl", effort="none")  # the log may be missing
        >>> module.run({"data": np.ones((1, 16), np.float32)})["logits"].shape
        (1, 10)
        >>> both = asd.compile([asd.zoo.build("mlp", batch=n, image=4) for n in (1, 8)])
        >>> both.run({"data": np.ones((8, 16), np.float32)})["logits"].shape
        (8, 10)

    Args:
        net: from ``from_onnx`` or ``zoo.build``, or the path of an ``.onnx`` file.
            Several, which differ in the shapes of their inputs alone (such as the batch), become
            one ``MultiShapeModule``, which runs what was compiled for the shapes it is given.
        target: a name that ``Target`` knows, or a target.  A module for another machine than this
            one can be saved and exported, and does not run.
        log: records of tuning.  A task without one for this target gets a schedule of the release,
            made on such a machine, else the one that the draft model predicts to be fastest:
            ``Module.untuned`` and a warning say which.  It may be of another algorithm, which
            ``Module.summary`` names: where the model is sure and ``check`` finds its errors within
            the budget; on a GPU, of one that rounds no more.  A missing log is a warning.
        threads: worker threads, instead of the target's.
        effort: for tasks without a record.  ``"draft"``: see ``log``.  ``"none"``: the draft model
            sees few schedules, all as the network is written: compiles in a fraction of the time,
            to code that may be slower.  ``"quick"``: measure on this machine first, at most 8
            trials of a task and a minute in all; what is measured is added to ``log``.
        check: run each kernel that has no record, or one whose results nobody compared, once on
            random inputs and compare a sample of its results with the program's definition.  Not
            done for a target whose code cannot run on this machine.
        device: ``"emulated"``: this machine's CPU stands in for the GPU: right results, estimated
            times; None: what the target says.
        denormals: ``"flush"``: on a CPU, numbers below 1.2e-38 in size (2.2e-308 in float64) count
            as 0 and become 0, in every thread and only during a run; ``"keep"``: they are computed
            with, at a hundred cycles or more for each.  GPUs keep them without that cost.
        accuracy: which other algorithms than those the network is written in may be used:
            ``"as written"``: none; ``"default"``: those whose errors are at most 1e-5 of the
            largest output of their task, or four times the errors of the task as it is written,
            and so few that all of them together add at most 1.4e-5 to the network's largest output;
            ``"close"``: the same, 1e-5 to the network's; ``"fast"``: 1e-4 of a task's.
        precision: ``"bf16"``, ``"fp16"`` or, on GPUs, ``"tf32"``: convolutions and products with
            constants multiply such numbers; ``"int8-dynamic"``: bytes, quantised during the run.
            A warning says what that does to outputs; ``PrecisionOptions`` adds inputs and a bound.

    Raises:
        WrongResultError: a kernel without a record computes something else than its task says.
        OptionError: what is given is no network, or nothing is.
        AssemblyError: several networks differ in more than the shapes of their inputs.
        AutoschedError: NaN weights, an unreadable log, an unknown target, one without a precision.
    """
    from autosched.compilation.precision import in_precision
    from autosched.runtime.link import link_all
    from autosched.system.errors import OptionError
    from autosched.tuning.effort import network_contents_at

    networks = networks_of(net)
    if not networks:
        raise OptionError("no network was given to compile")
    machine = resolve_target(target, threads, device)
    contents = [
        network_contents_at(effort, network, machine, log, check, accuracy)
        for network in in_precision(networks, precision, machine)
    ]
    return link_all(contents, denormals)


def load(
    path: PathText,
    trusted: bool = False,
    device: DeviceName | None = None,
    denormals: Denormals | None = None,
    shared: bool = False,
) -> Module:
    """Read a module that ``Module.save`` wrote; it runs at once, nothing is compiled.

    A module is machine code: running it is running a program that its author wrote, with all your
    rights.  Files that you saved on this machine are known by their signature; any other must be
    trusted explicitly.  Damage is found before anything of a file is linked.

        >>> asd.workloads.get("GMM").task(1, 16, 16, 16).module().save("gmm.asd")
        >>> asd.load("gmm.asd").inputs[0].shape
        (1, 16, 16)

    Args:
        path: of the file.
        trusted: that you trust whoever made the file as you do a program that you run.
        device: ``"emulated"``: a module for a GPU runs on the emulated device;
            ``"emulated-checked"``: with its accesses to memory checked.
        denormals: ``"flush"`` or ``"keep"``, see ``compile``; None: what it was compiled with.
        shared: read constants where the system keeps the file: all processes that load it like this
            share that memory, and loading copies nothing.  Else they are a copy of this process,
            in huge pages, which large networks read faster.  Do not write into the file meanwhile;
            ``Module.save`` replaces it.

    Raises:
        UntrustedModuleError: it was saved by another user or on another machine, and ``trusted``
            was not said.
        ModuleFileError: no such file, no module, damaged, or written by another release.
        TargetError: the module needs instructions that this machine does not have.
    """
    from autosched.runtime.archive import read_archive
    from autosched.runtime.backend import runtime_of
    from autosched.runtime.link import link_all
    from codegen.backend import check_runs

    modules = []
    for program, constants, objects, payloads in read_archive(Path(path), trusted, shared):
        target = resolve_target(program.target, device=device)
        check_runs(target, "load a module")
        runtime_of(target).check_here(objects, target)
        modules.append((replace(program, target=target), constants, objects, payloads))
    return link_all(modules, denormals)


class _Tune(Protocol[_Parameters]):
    """Of one network, or of several; the other parameters are those of the function."""

    @overload
    def __call__(
        self, net: AnyNetwork, /, *args: _Parameters.args, **options: _Parameters.kwargs
    ) -> NetworkTuning: ...

    @overload
    def __call__(
        self, net: SeveralNetworks, /, *args: _Parameters.args, **options: _Parameters.kwargs
    ) -> SessionTuning: ...


def _as_given(
    function: Callable[
        Concatenate[AnyNetwork | SeveralNetworks, _Parameters], NetworkTuning | SessionTuning
    ],
) -> _Tune[_Parameters]:
    """For type checkers: one network gives one result, several give one of them all."""
    return cast("_Tune[_Parameters]", function)


@_as_given
def tune(
    net: AnyNetwork | SeveralNetworks,
    target: AnyTarget = "cpu",
    budget: str | float | None = None,
    trials: int | None = None,
    log: PathText | None = None,
    seed: int | None = None,
    threads: int | None = None,
    options: TuneOptions | None = None,
    progress: Progress | None = None,
    quiet: bool = False,
    skip_tuned: bool = False,
    examples: Sequence[PathText] = (),
    objective: Objective | None = None,
    cost_model: AnyModel | None = None,
    callbacks: Sequence[Callback] = (),
    runner: Runner | str | None = None,
    measure: MeasureOptions | None = None,
    extra_features: Sequence[ExtraFeature] | None = None,
    device: DeviceName | None = None,
    accuracy: Accuracy | None = None,
    precision: Precision | PrecisionOptions = "as written",
) -> NetworkTuning | SessionTuning:
    """Search for fast schedules of all tasks of a network, measuring on this machine.

        >>> net = asd.zoo.build("mlp", image=4)
        >>> tuning = asd.tune(net, trials=3, log="tuned.jsonl", quiet=True)
        >>> tuning.result.trials
        3
        >>> module = asd.compile(net, log="tuned.jsonl")

    Args:
        net: see ``compile``; or several networks, which then are tuned together
            and share the trials of equal tasks.
        target: a name that ``Target`` knows, or a target.
        budget: wall-clock time: ``"10m"``, ``"1h30m"``, or seconds.  Without budget and trials:
            10 minutes.
        trials: measured candidates over all tasks, those of earlier runs in the log included.
        log: file that every trial is appended to.  If it exists, tuning resumes from it.
        seed: of everything random.
        threads: worker threads, instead of the target's.
        options: all the rest (search policy, early stopping, sketch rules, ...); ``budget``,
            ``trials``, ``seed``, ``extra_features`` and ``accuracy`` override its fields.
        progress: shows progress; None: a table on the terminal or in the notebook.
        quiet: show no progress.
        skip_tuned: only tune tasks that have no record for this target in the log.
        examples: logs of other networks or machines: a new task begins with the best schedules of
            the nearest tasks there, in the run itself, and among those that a release knows.
        objective: what to minimise, a function of ``autosched.tuning.objectives.Latencies``;
            None: the sum of the networks' latencies.
        cost_model: ranks candidates and learns from their times: ``SklearnModel(regressor)``, or
            ``"gbdt"``, ``"forest"``, ``"ridge"``, ...; None: gradient-boosted trees.
        callbacks: called after every batch, see ``autosched.report.callbacks``.
        runner: measures instead of this machine: ``"ray"`` or ``"ray://HOST:PORT"``, the machines
            of a cluster (``target`` is then one of theirs), or see ``autosched.measure.protocol``.
        measure: how to measure on this machine; None: the defaults.
        extra_features: that the cost model gets beside its table's; None: those of the options.
        device: as in ``compile``; records of an emulated one never count for the GPU.
        accuracy: which other algorithms are searched, as in ``compile``; None: the options'.
        precision: of the layers, as in ``compile``.

    Raises:
        AutoschedError: no network, a malformed option, an unwritable log, or a machine on which
            nothing runs.
    """
    from autosched.compilation.precision import in_precision
    from autosched.fleet.chosen import fleet_of
    from autosched.records.store import examples_of, open_store
    from autosched.tuning.job import TuneJob
    from autosched.tuning.networks import progress_or_table, tune_networks
    from autosched.tuning.objectives import weighted_sum
    from autosched.tuning.options import options_or_default

    networks = networks_of(net)
    chosen = options_or_default(options)
    with fleet_of(runner) as fleet:
        machine = _place(fleet, target, threads, device)
        job = TuneJob(
            options=chosen.overridden(trials, budget, seed, extra_features, accuracy),
            measure=measure,
            runner=None if isinstance(runner, str) else runner,
            start_runner=None if fleet is None else fleet.runner,
            log=None if log is None else open_store(log),
            examples=examples_of(examples),
            skip_tuned=skip_tuned,
            progress=progress_or_table(progress, quiet, None if runner else machine),
            callbacks=callbacks,
            cost_model=cost_model,
            objective=objective or weighted_sum,
        )
        session = tune_networks(in_precision(networks, precision, machine), machine, job)
    several = isinstance(net, Sequence) and not isinstance(net, str)
    return session if several else session.networks[0]
