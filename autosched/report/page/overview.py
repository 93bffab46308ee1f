"""What was reached: the time of each task, with its noise."""

from __future__ import annotations

from autosched.page.bars import NoisyBar, noisy_bars
from autosched.page.blocks import PageBlock, PageChart, PageSection, PageTable, PageText
from autosched.page.words import percent
from autosched.report.page.subject import ReportRun, ReportSubject, ReportTask
from autosched.system.numbers import counted, four_digits, milliseconds
from autosched.system.stability import share

_NOISE = (
    "The thin lines are the quartiles of the samples behind each time: differences within them say "
    "nothing. Trials that are not re-measured are the luckiest of many, so their times are scaled "
    "by what re-measuring changed elsewhere in the log."
)


def overview_section(subject: ReportSubject) -> PageSection:
    """The tasks, those that take longest first, with their noise."""
    run = subject.main
    blocks: list[PageBlock] = [PageText(_sum(subject, run))]
    if run.timed:
        blocks += [_times(run), PageText(_NOISE)]
    silent = [task.label for task in run.tasks if task.best is None]
    if silent:
        blocks.append(
            PageText(f"Nothing ran of {counted(len(silent), 'task')}: {', '.join(silent)}.")
        )
    return PageSection("overview", "Overview", tuple(blocks))


def _sum(subject: ReportSubject, run: ReportRun) -> str:
    total = (
        f"The tasks of one run of the network take {milliseconds(run.total_s)} ms together."
        if subject.specs
        else f"One run of each task takes {milliseconds(run.total_s)} ms together; how often a "
        "network runs each is not in the log: give the model to know."
    )
    if not run.timed:
        total = "None of them ran."
    others = "" if len(subject.runs) == 1 else f" All but the comparison is about {run.name}."
    missing = len(subject.specs.keys() - {task.key for task in run.tasks})
    have = "has" if missing == 1 else "have"
    untuned = f" {counted(missing, 'task')} of the network {have} no record." if missing else ""
    counts = f"{counted(len(run.tasks), 'task')}, {counted(run.tried, 'trial')}."
    return f"{counts} {total}{untuned}{others}"


def _times(run: ReportRun) -> PageChart:
    bars = [
        NoisyBar(
            task.label,
            task.total_s * 1e3,
            task.weight * task.low_s * 1e3,
            task.weight * task.high_s * 1e3,
        )
        for task in run.timed
    ]
    spec = noisy_bars(bars, "task", "ms in one run")
    longest = run.timed[0]
    alt = (
        f"Bars: the time of {counted(len(bars), 'task')}; {longest.label} takes longest, "
        f"{percent(longest.total_s / run.total_s)} of all."
    )
    rows = tuple(_row(task, run.total_s) for task in run.timed)
    header = ("task", "times", "ms each", "noise (std)", "share", "GFLOP/s", "trials", "variant")
    table = PageTable("The fastest schedule of each task", header, rows, (0, 7))
    return PageChart("Time of each task in one run", alt, spec, table)


def _row(task: ReportTask, total_s: float) -> tuple[str, ...]:
    speed = "" if task.flops is None else four_digits(task.flops / task.seconds / 1e9)
    return (
        task.label,
        f"{task.weight:g}",
        milliseconds(task.seconds),
        share(task.deviation) or "one sample",
        percent(task.total_s / total_s),
        speed,
        str(0 if task.trials is None else len(task.trials.records)),
        "" if task.best is None else task.best.variant,
    )
