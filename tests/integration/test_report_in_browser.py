"""A report in a real browser: every chart is drawn, and the console says nothing."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from autosched.page.file import library
from autosched.records.log import RecordLog
from autosched.records.reading import RecordSet
from autosched.report.page.live import LivePage, PageState
from autosched.report.page.serving import PageServer
from autosched.report.page.subject import ReportSubject, runs_of
from autosched.report.page.writing import report
from tests.support.report_logs import LOG, trial

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome-headless-shell")
MOST_BYTES = 4_000_000
DRAWN = 'data-drawn="yes"'


@pytest.fixture(scope="module")
def browser() -> str:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"no browser is installed: none of {', '.join(BROWSERS)}")
    return found


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("vl_convert", reason="the extra `report` is not installed")
    many = [trial("a" * 16, n, 1e-4 + n * 1e-7, n % 7, n % 5) for n in range(1, 2000)]
    runs = (*runs_of("first", (*LOG, *many), {}), *runs_of("second", LOG, {}))
    path = tmp_path_factory.mktemp("report") / "page.html"
    report(ReportSubject("report", runs, {}), path)
    return path


def shown(browser: str, url: str, size: str, profile: Path) -> str:
    """The document after its scripts have run, which must not have said anything."""
    command = [
        browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
        f"--user-data-dir={profile}", f"--window-size={size}", "--virtual-time-budget=20000",
        "--dump-dom", url,
    ]  # fmt: skip
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert [line for line in run.stderr.splitlines() if ":CONSOLE:" in line] == []
    return run.stdout


@pytest.mark.slow
def test_a_page_is_small(page: Path) -> None:
    assert page.stat().st_size < MOST_BYTES


@pytest.mark.slow
@pytest.mark.parametrize("size", ["1100,900", "390,800"], ids=["desk", "phone"])
def test_every_chart_is_drawn_and_the_console_is_quiet(
    browser: str, page: Path, size: str, tmp_path: Path
) -> None:
    text = shown(browser, page.as_uri(), size, tmp_path)
    figures = re.findall(r'<figure id="chart-\d+"[^>]*>', text)
    assert len(figures) >= 9
    assert [figure for figure in figures if DRAWN not in figure] == []
    assert len(re.findall(r"<svg[^>]* class=\"marks\"", text)) == len(figures)
    assert text.count("<select") >= 5  # a task, and axes of the landscape


CHOOSES = """<script>
setTimeout(() => {
  const [, , up] = document.querySelectorAll('[data-kind="landscape"] select');
  up.value = "2";
  up.dispatchEvent(new Event("change"));
  document.getElementById("look").click();
}, 3000);
</script></body></html>
"""


@pytest.mark.slow
def test_a_reader_chooses_axes_and_colours(browser: str, page: Path, tmp_path: Path) -> None:
    """The decisions were tried with 7, 5 and 1 values, in this order of the menus."""
    other = tmp_path / "chosen.html"
    other.write_text(page.read_text().removesuffix("</body></html>\n") + CHOOSES)
    text = shown(browser, other.as_uri(), "1100,900", tmp_path)
    assert '<html lang="en" data-look="dark"' in text
    before = shown(browser, page.as_uri(), "1100,900", tmp_path)
    titled = "Best time of each pair of {}</caption>"
    assert titled.format("i and j") in before and titled.format("i and k") in text
    assert titled.format("i and j") not in text
    assert DRAWN in text and 'data-drawn="no"' not in text


class Growing(LivePage):
    """Its log gets records before the second request, whenever that comes."""

    def __init__(self, log: RecordLog) -> None:
        def subject(found: RecordSet) -> ReportSubject:
            return ReportSubject("report", runs_of("log", found.records, {}), {})

        super().__init__(log, subject, library(), float)  # time stands still: no rests
        self.log, self.asked = log, 0

    def current(self) -> PageState:
        self.asked += 1
        if self.asked == 2:
            self.log.append(LOG)
        return super().current()


@pytest.mark.slow
def test_a_live_page_follows_its_log(browser: str, tmp_path: Path) -> None:
    pytest.importorskip("vl_convert", reason="the extra `report` is not installed")
    page = Growing(RecordLog(tmp_path / "log.jsonl"))
    with PageServer(page, 0) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            text = shown(browser, server.url, "1100,900", tmp_path / "profile")
        finally:
            server.shutdown()
            serving.join()
    figures = re.findall(r'<figure id="chart-\d+"[^>]*>', text)
    assert page.asked > 2 and len(figures) >= 7
    assert [figure for figure in figures if DRAWN not in figure] == []
    assert "<h1>report</h1>" in text and "Live: this page follows the log." in text
