"""A campaign goes on where it was, counts everything once, and fails when a case does."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from campaign.command import main
from campaign.part import Entry
from campaign.parts import PARTS, entry
from campaign.report import rows, table
from campaign.session import reached
from campaign.state import State, StateError, Tally
from campaign.verdict import Verdict


def filled(path: Path) -> State:
    state = State(path, 7, 0)
    verdicts = [(1, Verdict("right", "", {"kernels": 2})), (2, Verdict("wrong", "off by 1"))]
    state.record("tensor", 0, 2, verdicts, 0.5, 1.0)
    state.record("tensor", 4, 2, [(3, Verdict("refused", "no"))], 0.5, 1.0)
    return state


def test_state_is_read_back(tmp_path):
    path = tmp_path / "deep" / "state.jsonl"
    written = filled(path)
    read = State(path, None, 99)
    assert read.seed == 7
    assert read.tallies == written.tallies
    tally = read.tally("tensor")
    assert (tally.next, tally.counts["cases"], tally.counts["kernels"]) == (6, 3, 2)
    assert tally.failures == [{"seed": 2, "outcome": "wrong", "message": "off by 1"}]
    assert table(read.tallies).count("\n") == 1
    assert rows(read.tallies)[0]["refusals"] == {"refused: no": 1}


def test_a_torn_line_is_dropped_and_another_seed_is_refused(tmp_path):
    path = tmp_path / "state.jsonl"
    filled(path)
    whole = path.read_text()
    path.write_text(whole + '{"part": "ten')
    again = State(path, 7, 0)
    again.record("tensor", 6, 1, [(9, Verdict("right"))], 0.0, 0.0)
    assert State(path, None, 0).tally("tensor").counts["cases"] == 4
    with pytest.raises(StateError, match="seed 7, not 8"):
        State(path, 8, 0)
    path.write_text("something else\n")
    with pytest.raises(StateError, match="not the state"):
        State(path, None, 0)


def test_goals():
    part = Entry("p", "cases", "", 1, {"cases": 10, "runs": 5}, 1, 1)
    tally = Tally()
    tally.counts.update(cases=10, runs=4)
    assert not reached(part, tally)
    tally.counts.update(runs=1)
    assert reached(part, tally)


def test_parts_are_found_by_name():
    assert entry(PARTS[0].name) is PARTS[0]
    with pytest.raises(KeyError, match="parts: tensor"):
        entry("nothing")


@pytest.mark.slow
def test_a_session_is_resumed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    options = ["--part", "lengths", "--minutes", "0.005", "--jobs", "1", "--json", "out/r.json",
               "--seed", "3"]  # fmt: skip
    codes, cases = [], []
    for _ in range(2):
        with pytest.raises(SystemExit) as ended:
            main([*options, "--regressions", str(tmp_path / "kept")])
        codes.append(ended.value.code)
        (row,) = json.loads(Path("out/r.json").read_text())["rows"]
        cases.append(row["cases"])
        assert codes[-1] == int(bool(row["failures"]))
    seeds = {line.split(",")[0] for line in capsys.readouterr().out.split("\n") if "seed" in line}
    assert 0 < cases[0] < cases[1]
    assert len(seeds) == 1


def test_a_part_whose_packages_are_missing_is_left_out(tmp_path, monkeypatch, capsys):
    lacking = replace(entry("lengths"), needs=("json", "no_such_package"))
    assert lacking.missing() == ["no_such_package"]
    monkeypatch.setattr("campaign.command.PARTS", (lacking,))
    with pytest.raises(SystemExit) as ended:
        main(["--minutes", "0.001", "--state", str(tmp_path / "s.jsonl")])
    assert ended.value.code == 0
    assert "lengths is left out: no_such_package" in capsys.readouterr().out
