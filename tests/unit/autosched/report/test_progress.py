from __future__ import annotations

import io
import math
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TextIO, cast

import pytest
from rich.console import Console

from autosched.measure.result import Timing
from autosched.records.log import RecordLog
from autosched.records.record import record_of
from autosched.report.events import Progress, ProgressSnapshot, Quiet, TaskRow
from autosched.report.explain import explain
from autosched.report.progress import (
    PlainProgress,
    TableProgress,
    Unfailing,
    choose_progress,
)
from autosched.report.table import (
    cells_of,
    columns,
    duration,
    more_line,
    summary_lines,
    table_lines,
    visible,
)
from autosched.runtime.peaks import Peaks
from autosched.runtime.probes.peak import measured_peak
from autosched.system.stability import Conditions
from autosched.system.streams import UnfailingStream
from autosched.system.user_warnings import AutoschedWarning
from autosched.task import Task
from autosched.tasks.compulsory_traffic import compulsory_bytes
from autosched.tuning.networks import progress_or_table
from codegen.host import host_target
from sketch.errors import TargetError
from tests.support.targets import SMALL
from tests.support.workloads import dense_relu

ROW = TaskRow("conv2d_relu", "1x56x56x64", 4.0, 2e8, 1e-3, 2e-3, 32, 0, "")
VIEW = ProgressSnapshot((ROW, replace(ROW, name="dense", failed=3, stopped="no improvement")),
            0, 64, 100, 12.0, None, 7.0)  # fmt: skip


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def drive(progress: Progress, batches: int = 3) -> None:
    progress.start(replace(VIEW, trials=0))
    for _ in range(batches):
        progress.update(VIEW)
    progress.message("warning: look here")
    progress.finish(replace(VIEW, current=None, stopped="trials"))


def test_plain_lines_come_every_few_seconds() -> None:
    now = iter([0.0, 1.0, 2.0, 6.0, 6.0, 7.0])
    out = io.StringIO()
    drive(PlainProgress(out, Peaks(3.2e11), every_s=5.0, clock=lambda: next(now)), batches=4)
    lines = out.getvalue().splitlines()
    assert lines[0] == "tuning 2 tasks, at most 100 trials"
    assert sum("elapsed" in line for line in lines) == 1
    assert "64/100 trials, estimated total 8 ms, 0:12 elapsed, 0:07 left" in lines[1]
    assert "conv2d_relu: 1 ms" in lines[1]
    assert "warning: look here" in lines
    assert lines[-1] == "estimated total 8 ms after 64 trials, 0:12 (trials)"


class Broken(io.StringIO):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def write(self, text: str) -> int:
        raise self.error


class Tee:
    """What users put in the place of stdout: it writes, and no more."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None: ...


@pytest.mark.parametrize(
    "error",
    [BrokenPipeError(32, "Broken pipe"), OSError(28, "No space left"), ValueError("closed file")],
)
@pytest.mark.parametrize("terminal", [False, True])
def test_a_stream_that_takes_nothing_ends_no_tuning(
    error: Exception, terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    out = Broken(error)
    monkeypatch.setattr(out, "isatty", lambda: terminal)
    before = sys.stdout
    warnings.simplefilter("error")  # it is no bug
    drive(choose_progress(stream=out))
    assert sys.stdout is before  # a live table has given it back


class Faulty(Quiet):
    """A progress with a bug."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def update(self, view: ProgressSnapshot) -> None:
        self.calls.append("update")
        raise ValueError("a bug")

    def finish(self, view: ProgressSnapshot) -> None:
        self.calls.append("finish")
        raise KeyError("another")


def test_a_progress_of_the_users_that_fails_ends_no_tuning_and_says_so_once() -> None:
    faulty = Faulty()
    with pytest.warns(AutoschedWarning, match="shown no more: ValueError: a bug") as told:
        drive(progress_or_table(faulty, quiet=False, target=None))
    assert faulty.calls == ["update", "finish"] and len(told) == 1


def test_a_stream_need_not_know_whether_it_is_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    tee = Tee()
    monkeypatch.setattr(sys, "stdout", tee)
    drive(choose_progress())
    assert "after 64 trials" in tee.text
    monkeypatch.setattr(sys, "stdout", None)
    drive(choose_progress())


def test_names_fit_any_encoding() -> None:
    raw = io.BytesIO()
    progress = PlainProgress(io.TextIOWrapper(raw, encoding="ascii"))
    progress.finish(replace(VIEW, rows=(replace(ROW, name="caf\u00e9"),)))
    assert b"caf?" in raw.getvalue() and b"after 64 trials" in raw.getvalue()


def test_a_table_fits_any_encoding() -> None:
    raw = io.BytesIO()
    below = io.TextIOWrapper(raw, encoding="ascii")
    console = Console(file=cast("TextIO", UnfailingStream(below)), width=100)
    TableProgress(None, console).finish(replace(VIEW, rows=(replace(ROW, name="caf\u00e9"),)))
    assert b"caf?" in raw.getvalue() and b"after 64 trials" in raw.getvalue()


def test_the_summary_names_speed_and_share_of_the_peak() -> None:
    out = io.StringIO()
    PlainProgress(out, Peaks(4e11)).finish(VIEW)
    head, first, second, _ = out.getvalue().splitlines()
    assert head.split() == ["id", "task", "shape", "weight", "search", "best", "ms", "last", "ms",
                            "GFLOPS", "peak", "trials"]  # fmt: skip
    assert first.split() == ["0", "conv2d_relu", "1x56x56x64", "4", "1", "2", "200.0", "50%", "32"]
    assert second.endswith("no improvement (3 failed)")


def test_the_peak_is_that_of_the_unit_a_task_is_computed_on() -> None:
    peaks = Peaks(1e11, {"vpdpbusd.512": 4e11})
    assert cells_of(0, ROW, peaks)[7] == "200%"
    assert cells_of(0, replace(ROW, unit="vpdpbusd.512"), peaks)[7] == "50%"


def test_re_timed_tasks_have_columns_of_their_own() -> None:
    """What the search found best and what it took when it was timed again are different times."""
    retimed = replace(ROW, retimed=Timing((1.25e-3, 1.25e-3, 1.25e-3)))
    view = replace(VIEW, rows=(retimed, ROW), conditions=Conditions(0.5, 0.01))
    out = io.StringIO()
    PlainProgress(out, Peaks(4e11)).finish(view)
    head, first, second, stability, total = out.getvalue().splitlines()
    assert "search best ms  re-timed ms  std %  re-timed GFLOPS" in head
    assert "last" not in head
    assert first.split()[4:8] == ["1", "1.25", "0.0", "160.0"]
    assert second.split()[4:8] == ["1", "-", "-", "200.0"]
    assert stability.startswith("stable: std of the re-timed at most 10 % of median, load 0.5")
    assert total.startswith("estimated total 9 ms (re-timed)")


def test_an_unstable_re_timing_is_said() -> None:
    varying = replace(ROW, retimed=Timing((1e-3, 1.5e-3, 1e-3)))
    view = replace(VIEW, rows=(varying,), conditions=Conditions(2.1, 0.12))
    text = summary_lines(view)[0]
    assert text.startswith("unstable: std of conv2d_relu 29 % of median, load 2.1, 12 % stolen;")
    quiet = replace(view, conditions=Conditions(), rows=(replace(ROW, retimed=Timing((1.0,))),))
    assert summary_lines(quiet)[0].startswith("stable: ")


def test_nothing_known_yet() -> None:
    row = replace(ROW, best_s=math.inf, last_s=math.inf, trials=0)
    assert cells_of(0, row, None)[4:7] == ["-", "-", "-"]
    assert len(cells_of(0, row, None)) == len(columns(None)) == len(columns(Peaks(1.0))) - 1
    view = replace(VIEW, rows=(row,), left_s=math.inf, trials_limit=None, budget_s=600.0)
    out = io.StringIO()
    progress = PlainProgress(out, every_s=0.0)
    progress.start(view)
    progress.update(view)
    assert "at most 10:00" in out.getvalue() and "total unknown" in out.getvalue()
    assert "left" not in out.getvalue()


def test_the_table_shows_all_tasks_at_the_end() -> None:
    out = Terminal()
    console = Console(file=out, width=140, force_terminal=True)
    drive(TableProgress(Peaks(3.2e11), console))
    text = out.getvalue()
    for part in ("conv2d_relu", "1x56x56x64", "GFLOPS", "look here", "after 64 trials"):
        assert part in text


def test_the_table_ends_even_when_it_never_began() -> None:
    console = Console(file=io.StringIO(), width=100)
    TableProgress(None, console).finish(VIEW)


def test_long_lists_show_the_task_at_work_and_those_that_take_longest() -> None:
    rows = [replace(ROW, best_s=1e-3 * n) for n in range(100)]
    rows[99] = replace(ROW, best_s=math.inf)  # not known yet
    many = replace(VIEW, rows=tuple(rows), current=50)
    shown = visible(many, 5)
    assert shown == [50, 96, 97, 98] and more_line(many, shown) == "... 96 more tasks"
    assert visible(many, 0) == [50]
    assert visible(replace(many, current=None), 3) == [97, 98]
    assert visible(many, 100) == list(range(100)) and more_line(many, range(100)) == ""
    assert more_line(many, range(99)) == "... 1 more task"


NAME = "transpose_conv2d_bias_relu.12"
LONG = replace(ROW, name=NAME, shapes="1x64x112x112 16x64x3x3 16", stopped="no improvement")


@pytest.mark.parametrize("retimed", [None, Timing((1.25e-3, 1.25e-3))])
def test_columns_that_do_not_fit_are_left_out_whole(retimed: Timing | None) -> None:
    view = replace(VIEW, rows=(replace(LONG, retimed=retimed),) * 12)
    peaks, numbers = Peaks(1.6e11), range(12)
    whole = table_lines(view, numbers, peaks)
    assert LONG.shapes in whole[1] and "GFLOPS" in whole[0]
    for width in range(30, len(whole[0]) + 20):
        lines = table_lines(view, numbers, peaks, width)
        assert max(map(len, lines)) <= width and all(NAME in line for line in lines[1:])
        assert set(" ".join(lines).split()) <= set(" ".join(whole).split())
    titles, *rows = table_lines(view, numbers, peaks, 80)
    assert "trials" in titles and "peak" in titles and "shape" not in titles
    assert rows[11].split()[0] == "11" and "%" in rows[11]
    narrow = table_lines(view, numbers, peaks, 10)
    assert narrow[1] == NAME  # never cut


def test_the_live_table_is_no_higher_than_the_terminal() -> None:
    view = replace(VIEW, rows=(LONG,) * 22, current=20)
    for width, height in ((80, 24), (40, 12), (200, 30)):
        console = Console(file=Terminal(), width=width, height=height, force_terminal=True)
        drawn = TableProgress(Peaks(1.6e11), console)._drawn(view)
        lines = console.render_lines(drawn, pad=False)
        text = "\n".join("".join(part.text for part in line) for line in lines)
        assert len(lines) < height
        assert NAME in text and "\u2026" not in text
        assert " ".join(text.split()).endswith("estimated total 88 ms, 0:12 elapsed, 0:07 left")
        assert ("more tasks" in text) == (height < 30)


def test_nothing_is_cut_in_the_table_at_the_end() -> None:
    view = replace(VIEW, rows=(LONG,) * 22, current=None, stopped="trials")
    for width in (20, 80, 100):
        out = Terminal()
        TableProgress(Peaks(1.6e11), Console(file=out, width=width)).finish(view)
        assert out.getvalue().count(NAME) == 22 and "\u2026" not in out.getvalue()


def test_a_terminal_that_redraws_nothing_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    out = Terminal()
    drive(choose_progress(stream=out))
    assert out.getvalue().startswith("tuning 2 tasks, at most 100 trials\n")
    assert "\x1b" not in out.getvalue()
    assert max(map(len, out.getvalue().splitlines())) <= 80


def test_the_choice_follows_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(choose_progress(quiet=True), Quiet)
    for stream, kind in ((io.StringIO(), PlainProgress), (Terminal(), TableProgress)):
        chosen = choose_progress(stream=stream)
        assert isinstance(chosen, Unfailing) and isinstance(chosen.shown, kind)
    drive(Quiet())


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (125, "2:05"), (3725, "1:02:05")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_the_peak_is_a_speed() -> None:
    peak = measured_peak(host_target(1))
    assert 1e8 < peak < 1e13
    with pytest.raises(TargetError, match="cuda"):
        measured_peak(replace(SMALL, kind="cuda"))


def test_explain_names_schedule_bounds_and_times(tmp_path: Path) -> None:
    task = Task(dense_relu(), SMALL)
    unmeasured = explain(task, peak_flops=1e11)
    assert "measured        never" in unmeasured and "FLOPs / peak" in unmeasured
    candidate = task.space.draft_candidate()
    record = record_of(task.key, candidate, SMALL, Timing((1e-5, 2e-5, 3e-5), error=1e-7))
    RecordLog(tmp_path / "log").append([record])
    text = explain(task, tmp_path / "log", peak_flops=1e11)
    assert "measured        0.02 ms" in text and "parallel " in text and "error 1.0e-07" in text
    assert compulsory_bytes(task.dag) == 4 * (8 * 33 + 33 * 50 + 50 + 8 * 50)
