"""Headers of a log: shared, named by what they say, never believed when damaged."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from autosched.measure.result import Timing
from autosched.records.checksum import with_checksum
from autosched.records.identity import recorded
from autosched.records.log import RecordLog
from autosched.records.merge import merge
from autosched.records.reading import parse_lines
from autosched.records.record import Record
from autosched.records.shared import Splitter, headers_in, lines_of
from sketch.target.target import Target

ROOT = Path(__file__).parents[4]
ONE = Record(
    "task", Target("cpu", "generic"), "direct", (), {"a": 1, "b": 2}, Timing((1.0,)), time=3.0
)
OTHER = replace(ONE, task="other")


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_the_schema_is_what_version_5_says() -> None:
    (session, sketch), trial = Splitter().split(ONE)
    assert trial == {
        "v": 5,
        "session": session["header"],
        "sketch": sketch["header"],
        "values": [1, 2],
        "result": {"seconds": [1.0], "cache_state": "warm"},
        "phase": "trial",
        "seed": 0,
        "time": 3.0,
        "crc32": trial["crc32"],
    }
    assert session.keys() == {"v", "header", "target", "versions", "crc32"}
    assert sketch.keys() == {"v", "header", "task", "variant", "steps", "decisions", "crc32"}
    assert sketch["decisions"] == ["a", "b"]


def test_headers_are_shared(tmp_path: Path) -> None:
    log = RecordLog(tmp_path / "log.jsonl")
    log.append([ONE, OTHER, ONE])
    RecordLog(log.path).append([replace(OTHER, decisions={"a": 9, "b": 9})])
    assert ['"header"' in line for line in lines(log.path)] == [
        True, True, False, True, False, False, False,
    ]  # fmt: skip
    log.append([replace(ONE, target=Target("cpu", "generic", threads=7))])
    assert len(lines(log.path)) == 9
    found = log.read()
    assert found.warnings == ()
    assert [r.task for r in found.records] == ["task", "other", "task", "other", "task"]
    assert found.records[3].decisions == {"a": 9, "b": 9}


@pytest.mark.parametrize("batch", [1, 50, 300])
def test_headers_are_written_again(tmp_path: Path, batch: int) -> None:
    log = RecordLog(tmp_path / "log.jsonl")
    for _ in range(0, 300, batch):
        log.append([ONE] * batch)
    # two headers, and their trials up to the next copy
    copies = [n for n, line in enumerate(lines(log.path)) if '"target"' in line]
    assert copies == [0, 6, 72, 138, 204, 270]
    assert log.read().records == (ONE,) * 300


def test_a_damaged_line_costs_few_trials(tmp_path: Path) -> None:
    log = RecordLog(tmp_path / "log.jsonl")
    trials = [replace(ONE if n % 7 else OTHER, time=float(n)) for n in range(300)]
    log.append(trials)
    rng = random.Random(0)
    text = [line.encode() for line in lines(log.path)]
    keys = Counter(json.loads(line).get("header") for line in text)
    for number, line in enumerate(text):
        if number % 8 and b'"header"' not in line:
            continue
        at = rng.randrange(len(line))
        bad = line[:at] + bytes([line[at] ^ 1 << rng.randrange(8)]) + line[at + 1 :]
        found = parse_lines(b"\n".join([*text[:number], bad, *text[number + 1 :], b""]), "log")
        own = json.loads(line)
        copied = "header" in own and keys[own["header"]] > 1
        few = 0 if copied else 4 if "header" in own else 1
        assert len(found.records) in range(300 - few, 301), (number, at)
        assert all(record == trials[int(record.time)] for record in found.records)
        assert [w.split(": ")[0] for w in found.warnings][:1] == [f"log:{number + 1}"]


def test_a_header_may_follow_its_trials() -> None:
    whole = list(lines_of([ONE, ONE], {}))
    found = parse_lines(b"\n".join([*whole[2:], *whole[:2], b""]), "log")
    assert (found.records, found.warnings) == ((ONE, ONE), ())


def test_files_that_were_joined_in_any_order_are_one_log(tmp_path: Path) -> None:
    first, second = RecordLog(tmp_path / "a.jsonl"), RecordLog(tmp_path / "b.jsonl")
    first.append([ONE, OTHER])
    second.append([OTHER, ONE])
    joined = tmp_path / "joined.jsonl"
    joined.write_text("\n".join(sorted(lines(first.path)[::-1] + lines(second.path))) + "\n")
    found = RecordLog(joined).read()
    assert found.warnings == ()
    assert sorted(r.task for r in found.records) == ["other", "other", "task", "task"]


@pytest.mark.parametrize("signed", [False, True])
def test_trials_of_a_damaged_header_are_skipped_by_line(tmp_path: Path, signed: bool) -> None:
    log = RecordLog(tmp_path / "log.jsonl")
    log.append([ONE, ONE, OTHER])
    text = lines(log.path)
    data = json.loads(text[1])
    data["decisions"] = ["b", "a"]
    text[1] = json.dumps(with_checksum(data) if signed else data)
    log.path.write_text("\n".join(text) + "\n")
    found = log.read()
    assert [r.task for r in found.records] == ["other"]
    header, trial = found.warnings
    assert header.startswith(f"{log.path}:2: skipped: damaged: the ")
    assert trial.startswith(f"{log.path}:3: skipped: its header ")
    assert trial.endswith("of line 2 is damaged, and 1 more of it")
    log.append([ONE])  # writes the header again, and its earlier trials are whole, too
    assert [r.task for r in log.read().records] == ["task", "task", "other", "task"]
    assert len(log.read().warnings) == 1


def test_trials_without_their_header_are_skipped_by_line(tmp_path: Path) -> None:
    log = RecordLog(tmp_path / "log.jsonl")
    log.append([ONE, OTHER])
    log.path.write_text("\n".join(lines(log.path)[1:]) + "\n")
    found = log.read()
    assert found.records == ()
    (warning,) = found.warnings
    assert warning.startswith(f"{log.path}:2: skipped: its header ")
    assert warning.endswith("is missing or torn, and 1 more of it")


def test_a_reference_to_a_header_of_another_kind_is_refused(tmp_path: Path) -> None:
    log = RecordLog(tmp_path / "log.jsonl")
    log.append([ONE])
    *headers, last = lines(log.path)
    trial = json.loads(last)
    swapped = with_checksum(trial | {"session": trial["sketch"]})
    fewer = with_checksum(trial | {"values": [1]})
    log.path.write_text("\n".join([*headers, json.dumps(swapped), json.dumps(fewer)]) + "\n")
    kind, values = log.read().warnings
    assert ":3: skipped: header" in kind and "is of another kind" in kind
    assert values.endswith(":4: skipped: 1 values are not those of 2 decisions")


def test_a_torn_header_is_written_again(tmp_path: Path) -> None:
    log = RecordLog(tmp_path / "log.jsonl")
    log.append([ONE])
    log.path.write_bytes(log.path.read_bytes().split(b"\n")[0][:-10])
    assert headers_in(log.path.read_bytes()) == {}
    log.append([ONE])
    assert log.read().records == (ONE,)


def test_a_log_of_a_network_takes_a_kilobyte_a_trial(tmp_path: Path) -> None:
    kept = RecordLog(ROOT / "benchmarks" / "logs" / "resnet-18.2t.jsonl").read().records
    log = RecordLog(tmp_path / "log.jsonl")
    # A quarter of what a session of a network makes, 19 tasks with 12 sketches and 3,700 trials,
    # and more than a quarter of the sketches.
    sketches = [
        replace(record, steps=record.steps + record.steps[:extra], target=recorded(record.target))
        for record in kept
        for extra in range(2)
    ]
    assert len(sketches) > 19 * 12 / 4
    trials = [sketches[n % len(sketches)] for n in range(925)]
    for start in range(0, len(trials), 95):
        log.append(trials[start : start + 95])
    assert log.path.stat().st_size < 1_000_000
    assert log.read().records == tuple(trials)


def test_merging_turns_old_lines_into_new_ones(tmp_path: Path) -> None:
    old = ROOT / "tests" / "records" / "schema_v2.jsonl"
    merge([old], tmp_path / "new.jsonl")
    assert RecordLog(tmp_path / "new.jsonl").read().records == RecordLog(old).read().records
    assert all(line.startswith('{"v":3,') for line in lines(tmp_path / "new.jsonl"))


def test_truncated_logs_lose_the_torn_line_only() -> None:
    trials = [replace(ONE if n % 2 else OTHER, time=float(n)) for n in range(4)]
    written = list(lines_of(trials, {}))
    text = b"\n".join([*written, b""])
    for size in range(len(b"\n".join(written[:3])), len(text)):
        left = text[:size].split(b"\n")
        whole = [line for line, once in zip(left, written, strict=False) if line == once]
        found = parse_lines(text[:size], "log")
        assert found.records == tuple(trials[: sum(b'"session"' in line for line in whole)])
        torn = len([line for line in left if line]) - len(whole)
        assert [w.split(": ")[0] for w in found.warnings] == [f"log:{len(left)}"] * torn


def test_shuffled_merged_and_torn_lines_cost_no_others() -> None:
    trials = [replace(ONE if n % 3 else OTHER, time=float(n)) for n in range(40)]
    whole = list(lines_of(trials, {}))
    for number in range(60):
        rng = random.Random(number)
        text = list(whole)
        rng.shuffle(text)
        one, two = rng.sample(range(len(text)), 2)
        text[one] = text[one] + text[two][: rng.randrange(len(text[two]))]
        text.insert(two, rng.choice(text))
        found = parse_lines(b"\n".join([*text, b"\xff\xfe", b""]), "log")
        assert all(record == trials[int(record.time)] for record in found.records)
        lost = 40 - len({record.time for record in found.records})
        assert lost <= 4 and 1 <= len(found.warnings) <= 4


def test_a_header_by_the_name_of_another_is_nobodys() -> None:
    whole = list(lines_of([ONE, OTHER], {}))
    one, two = (json.loads(line) for line in (whole[1], whole[3]))
    false = json.dumps(with_checksum(one | {"header": two["header"]})).encode()
    for text in ([false, *whole], [*whole, false]):
        found = parse_lines(b"\n".join([*text, b""]), "log")
        assert found.records == (ONE, OTHER)
        assert len(found.warnings) == 1 and "is of something else" in found.warnings[0]
