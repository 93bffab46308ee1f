"""A live page follows its log, is served to this machine only, and says what is wrong."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import pytest

from autosched.records.log import RecordLog
from autosched.report.page.live import LivePage
from autosched.report.page.serving import PageServer
from autosched.report.page.subject import ReportSubject, runs_of
from autosched.system.errors import OptionError
from tests.support.report_logs import LOG


class Clock:
    """Counts a second for each time that it is asked for."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@pytest.fixture
def log(tmp_path: Path) -> RecordLog:
    return RecordLog(tmp_path / "log.jsonl")


def live(log: RecordLog, clock: Callable[[], float] = float) -> LivePage:
    return LivePage(
        log,
        lambda found: ReportSubject("report", runs_of("log", found.records, {}), {}),
        "const vegaEmbed = null;",
        clock,
    )


def test_a_log_that_is_not_there_is_waited_for(log: RecordLog) -> None:
    page = live(log)
    assert not page.check()
    waiting = page.current()
    assert "has no record yet" in waiting.text and "connect-src 'self'" in waiting.text
    log.append(LOG)
    found = page.current()
    assert found.version != waiting.version and found.version in found.text
    assert '<h2 id="overview">' in found.text


def test_a_page_is_made_once_for_a_log(log: RecordLog) -> None:
    log.append(LOG)
    page = live(log)
    first = page.current()
    assert page.current() is first


def test_making_pages_takes_a_tenth_of_the_time_at_most(log: RecordLog) -> None:
    clock = Clock()
    page = live(log, clock)
    log.append(LOG[:3])
    first = page.current()
    made_at = clock.now
    log.append(LOG[3:])
    while page.current() is first:
        pass
    assert clock.now - made_at >= 9.0


def test_a_log_that_turns_bad_is_told_on_the_page(log: RecordLog) -> None:
    page = live(log)
    page.current()
    log.path.write_text("<b>not a log</b>\n")
    text = page.current().text
    assert "this is no log" in text and "<b>" not in text
    log.path.unlink()
    log.append(LOG)
    assert '<h2 id="overview">' in page.current().text


@contextmanager
def served(page: LivePage) -> Iterator[PageServer]:
    with PageServer(page, 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def get(server: PageServer, path: str = "/", **headers: str) -> tuple[HTTPResponse, str]:
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    connection.request("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer, text


def test_a_page_is_sent_again_only_when_the_log_grew(log: RecordLog) -> None:
    log.append(LOG[:4])
    with served(live(log)) as server:
        assert server.server_address[0] == "127.0.0.1"
        first, text = get(server)
        tag = first.headers["ETag"]
        assert first.status == 200 and "Tuning" not in tag and '<h2 id="overview">' in text
        same, nothing = get(server, If_None_Match=tag)
        assert (same.status, nothing) == (304, "")
        log.append(LOG[4:])
        answers = (get(server, If_None_Match=tag)[0] for _ in range(100))
        newer = next(answer for answer in answers if answer.status == 200)
        assert newer.headers["ETag"] != tag


def test_other_paths_and_names_of_other_sites_are_refused(log: RecordLog) -> None:
    with served(live(log)) as server:
        assert get(server, "/etc/passwd")[0].status == 404
        assert get(server, Host="evil.example")[0].status == 403
        assert get(server, Host=f"localhost:{server.server_port}")[0].status == 200


def test_the_usual_port_is_left_out_by_clients(log: RecordLog) -> None:
    with served(live(log)) as server:
        connection = HTTPConnection("127.0.0.1", server.server_port, timeout=20)
        for port, status in ((server.server_port, 403), (80, 200)):
            server.server_port = port
            connection.request("GET", "/", headers={"Host": "localhost"})
            answer = connection.getresponse()
            answer.read()
            assert answer.status == status
            connection.close()


def test_a_busy_port_is_one_clear_error(log: RecordLog) -> None:
    with (
        PageServer(live(log), 0) as first,
        pytest.raises(OptionError, match="the port cannot be used: Address already in use"),
    ):
        PageServer(live(log), first.server_port)
