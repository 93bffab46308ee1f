"""A report is one document that says what the log says, and nothing that the log could inject."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from autosched.measure.result import Failure, MeasureResult, Timing
from autosched.page.blocks import PageChart
from autosched.page.document import document
from autosched.records.errors import RecordError
from autosched.records.record import Record
from autosched.records.title import Title
from autosched.report.page.choices import landscape_section, prediction_section
from autosched.report.page.roofs import Roofs
from autosched.report.page.schedules import comparison_section
from autosched.report.page.subject import ReportSubject, runs_of
from autosched.report.page.writing import sections_of
from tests.support.report_logs import ELSEWHERE, LOG, MARKUP, OLD, PRUNED, trial

LIBRARY = 'const vegaEmbed = null; const text = "</script><!--";'
VOID = {"meta", "br", "hr", "img", "input", "link"}
SECTIONS = (
    "overview", "network", "roofline", "convergence", "trials", "variants", "prediction",
    "landscape", "schedules", "failures", "comparison", "machine",
)  # fmt: skip


class Reader(HTMLParser):
    """Checks that elements close in order; keeps their attributes and the text outside scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "script" not in self.open and "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def subject(*logs: Sequence[Record], **more: Any) -> ReportSubject:
    runs = [run for n, log in enumerate(logs) for run in runs_of(f"log{n} {MARKUP}", log, {})]
    return ReportSubject(f"title {MARKUP}", tuple(runs), {}, **more)


def page(found: ReportSubject) -> str:
    sections = sections_of(found, Roofs(None, "no roofs"))
    return document(found.title, "intro", sections, LIBRARY)


def test_a_page_is_well_formed_and_escapes_what_logs_say() -> None:
    text = page(subject(LOG, warnings=(f"line {MARKUP}",)))
    found = Reader(text)
    assert [a["id"] for a in found.of("h2")] == list(SECTIONS)
    # One script for each chart, the library, and what draws.
    assert len(found.of("script")) == len(found.of("figure")) + 2
    assert "alert(1)</script>" not in text
    assert found.of("b") == []
    assert found.text.count(MARKUP) > 10


def test_a_page_loads_nothing() -> None:
    found = Reader(page(subject(LOG)))
    for tag, attributes in found.elements:
        assert not {"src", "srcset", "action", "data", "background"} & attributes.keys(), tag
        assert (attributes.get("href") or "#").startswith("#"), tag
    (policy,) = (a["content"] for a in found.of("meta") if "http-equiv" in a)
    assert policy is not None and policy.startswith("default-src 'none'")
    assert "http" not in policy


def test_links_work_and_charts_have_words_and_a_table() -> None:
    text = page(subject(LOG))
    found = Reader(text)
    ids = [a["id"] for _, a in found.elements if "id" in a]
    assert len(ids) == len(set(ids))
    assert {str(a["href"])[1:] for a in found.of("a")} <= set(ids)
    charts = [a for a in found.of("div") if a.get("role") == "img"]
    assert len(charts) == len(found.of("figure")) > 4
    assert all(len(str(a["aria-label"])) > 15 for a in charts)
    for figure in re.findall(r"<figure.*?</figure>", text, re.DOTALL):
        assert "<table>" in figure and "<caption>" in figure
    assert all("scope" in a for a in found.of("th"))


def test_numbers_are_those_of_the_log() -> None:
    run = subject(LOG).main
    best = {task.key[0]: task for task in run.tasks}
    assert best["a"].seconds == pytest.approx(2e-4)
    assert best["a"].low_s == pytest.approx(1.9e-4) and best["a"].high_s == pytest.approx(2.1e-4)
    assert best["c"].best is None
    assert run.total_s == pytest.approx(1e-3)
    assert run.timed[0].key[0] == "b"
    text = Reader(page(subject(LOG))).text
    assert "from 1.2 ms at trial 3 to 1 ms at trial 6" not in text  # that is the chart's words
    assert "run: SIGSEGV" in text and "Nothing ran of 1 task:" in text


@pytest.mark.parametrize("log", [OLD, PRUNED, LOG[1:2]], ids=["old", "pruned", "failed"])
def test_what_a_log_lacks_is_said(log: Sequence[Record]) -> None:
    text = Reader(page(subject(log))).text
    assert "to see its tasks under the roofs" in text
    if log is OLD:
        assert "does not say when its trials were measured" in text
    if log is PRUNED:
        assert "it was pruned" in text


def test_machines_of_a_log_are_runs_the_last_first() -> None:
    names = [run.name for run in runs_of("x", (*LOG, *ELSEWHERE), {})]
    assert names == ["x on generic/4", "x on generic/2"]


def test_machines_of_one_label_have_different_names() -> None:
    def on(features: str, vector_bytes: int = 16) -> tuple[Record, ...]:
        target = replace(LOG[0].target, features=features, vector_bytes=vector_bytes)
        return tuple(replace(r, target=target) for r in LOG)

    logs = (on("+avx2"), on("+avx2,+fma,+f16c,+bmi,+bmi2"), on("+avx2", 32))
    names = [run.name for run in runs_of("x", sum(logs, ()), {})]
    assert names == [
        "x on generic/2 (1)", "x on generic/2 with bmi, bmi2, f16c, ...", "x on generic/2 (2)"
    ]  # fmt: skip


def test_a_log_of_failures_says_that_nothing_ran() -> None:
    failed = [replace(r, result=Failure("run", "SIGSEGV", "crash")) for r in LOG]
    text = Reader(page(subject(failed))).text
    assert text.count("None of 7 trials ran") >= 4
    assert "pruned" not in text and "0 ms" not in text and "schema 5" not in text
    compared = Reader(page(subject(failed, failed))).text
    assert "None of 14 trials ran" in compared and "No task has a time in all runs" in compared


def test_extreme_numbers_of_a_log_leave_a_page() -> None:
    extreme = (
        replace(LOG[0], time=1e300, predicted=1e308, title=Title("x", 1e308)),
        replace(LOG[2], time=1e17, predicted=1e-320, title=Title("y", 0.0)),
        replace(LOG[3], decisions={"i": 2**62, "j": 1, "k": 1}),
    )
    text = page(subject(extreme))
    assert "Infinity" not in text and "NaN" not in text
    assert "measured" in Reader(text).text


def test_tasks_of_one_title_have_different_labels() -> None:
    log = tuple(replace(r, title=Title("same", 1e6)) for r in LOG)
    run = subject(log).main
    assert sorted(task.label for task in run.tasks) == [f"same {c * 8}" for c in "abc"]
    assert [task.label for task in run.trials] == [task.label for task in run.tasks[:2]]


def test_an_empty_log_is_an_error() -> None:
    with pytest.raises(RecordError, match="the log has no record"):
        runs_of("empty.jsonl", (), {})


def test_old_logs_say_that_predictions_are_missing() -> None:
    assert "schema 5" in Reader(page(subject(OLD))).text
    assert "schema 5" not in Reader(page(subject(LOG))).text


def test_runs_are_compared_with_their_noise() -> None:
    slower = tuple(replace(r, result=doubled(r.result)) for r in LOG)
    chart = comparison_section(subject(slower, LOG)).blocks[1]
    assert isinstance(chart, PageChart)
    values = chart.spec["layer"][0], chart.spec["data"]["values"]
    assert [v["ratio"] for v in values[1]] == pytest.approx([2.0, 2.0])
    assert all(v["low"] < 2.0 < v["high"] for v in values[1])
    assert "2 are faster" in chart.alt and "0 slower" in chart.alt


def doubled(result: MeasureResult) -> MeasureResult:
    if isinstance(result, Failure):
        return result
    return Timing(tuple(2 * second for second in result.seconds))


def test_a_landscape_has_every_decision() -> None:
    chart = landscape_section(subject(LOG)).blocks[0]
    assert isinstance(chart, PageChart)
    (task,) = chart.spec["tasks"]
    assert sorted(task["names"]) == ["i", "j", "k"] and len(task["us"]) == 3
    assert dict(zip(task["names"], task["columns"], strict=True))["i"] == [1, 2, 2]


def test_predictions_are_ranked() -> None:
    many = tuple(trial("a" * 16, n, (1 + n) * 1e-4) for n in range(1, 11))
    chart = prediction_section(subject(many)).blocks[0]
    assert isinstance(chart, PageChart)
    assert chart.table.rows[0][1:] == ("10", "1.00")


def test_a_page_of_many_trials_stays_small() -> None:
    many = [trial(f"{n % 40:016x}", n, 1e-4 + n * 1e-9, n % 7, n % 11) for n in range(1, 6000)]
    assert len(page(subject(many))) < 1_500_000
