import json
import math
from dataclasses import replace

import pytest

from autosched.measure.result import Failure, Timing
from autosched.records.checksum import checksum, with_checksum
from autosched.records.errors import RecordError
from autosched.records.record import (
    NewerSchemaError,
    Record,
    from_json,
    record_of,
    to_json,
)
from autosched.tasks.candidate import Candidate
from sketch.dag.dag import ComputeDAG
from sketch.lang.reducers import sum as sum_
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.schedule.decision import LoopDecision
from sketch.schedule.sketch import Sketch
from sketch.schedule.stage import StageId
from sketch.schedule.steps import Split
from sketch.target.target import Target

TARGET = Target("cpu", "generic", threads=2)


def matmul() -> ComputeDAG:
    a, b, k = placeholder((8, 8), name="A"), placeholder((8, 8), name="B"), reduce_axis(8)
    return ComputeDAG([compute((8, 8), lambda i, j: sum_(a[i, k] * b[k, j], axis=k), name="C")])


def candidate(dag: ComputeDAG | None = None) -> Candidate:
    decision = LoopDecision(StageId(0), 0, "1")
    sketch = Sketch(dag or matmul(), (Split(StageId(0), 0, (decision,)),), TARGET, "direct")
    return Candidate(sketch, {decision: 4})


def a_record(result=Timing((1e-3, 2e-3), "warm", 1e-7)) -> Record:  # noqa: B008
    return record_of(
        "0123456789abcdef", candidate(), TARGET, result, seed=7, versions={"autosched": "0.1.0"},
        time=1.5,
    )  # fmt: skip


@pytest.mark.parametrize(
    "result",
    [Timing((1e-3, 2e-3), "dram_cold"), Timing((1.0,), "warm", 1e-7),
     Failure("compile", "LoweringError", "no | where | hint")],
)  # fmt: skip
def test_a_record_survives_json(result):
    record = a_record(result)
    assert from_json(json.loads(json.dumps(to_json(record)))) == record


def test_a_record_that_stands_alone_is_what_version_5_says():
    assert to_json(a_record()) == {
        "v": 5,
        "task": "0123456789abcdef",
        "target": {name: value for name, value in TARGET.to_json().items() if value},
        "variant": "direct",
        "steps": [{"kind": "split", "version": 1, "stage": "0", "axis": "0", "factors": ["0"]}],
        "decisions": {"0.0@1": 4},
        "phase": "trial",
        "result": {"seconds": [1e-3, 2e-3], "cache_state": "warm", "error": 1e-7},
        "seed": 7,
        "versions": {"autosched": "0.1.0"},
        "time": 1.5,
        "crc32": "060a5c1b",
    }


def test_what_was_known_before_the_measurement_is_kept_in_few_bytes():
    ranked = replace(candidate(), predicted=1.23456789e-4)
    timing = Timing((1e-3,), build_s=0.0812345)
    record = record_of("t", ranked, TARGET, timing, trial=12)
    data = to_json(record)
    assert (data["trial"], data["predicted"], data["result"]["build_s"]) == (12, 1.23e-4, 0.0812)
    assert from_json(data) == replace(record, result=replace(timing, build_s=0.0812))
    more = len(json.dumps(data)) - len(json.dumps(to_json(a_record(Timing((1e-3,))))))
    assert more < 64
    assert not {"trial", "predicted"} & to_json(a_record()).keys()


def test_sketches_of_records_have_keys():
    one, other = a_record(), a_record()
    moved = replace(one, decisions={"0.0@1": 2}, target=replace(TARGET, threads=7))
    assert one.sketch_key == other.sketch_key == moved.sketch_key
    assert len({one.sketch_key, replace(one, steps=()).sketch_key}) == 2


def test_the_checksum_depends_on_values_alone():
    data = to_json(a_record())
    shuffled = json.loads(json.dumps(dict(reversed(data.items())), indent=3))
    assert checksum(shuffled) == data["crc32"]
    assert from_json(shuffled) == a_record()


@pytest.mark.parametrize(
    "change", [{"seed": 8}, {"crc32": "00000000"}, {"crc32": None}, {"v": 1}, {"v": 2}]
)
def test_a_line_that_was_changed_is_damaged(change):
    with pytest.raises(RecordError, match="damaged: the checksum"):
        from_json(to_json(a_record()) | change, "log:3")


def test_a_line_without_its_checksum_is_damaged_unless_it_is_of_the_old_schema():
    data = to_json(a_record())
    del data["crc32"]
    with pytest.raises(RecordError, match="the checksum is missing"):
        from_json(data)
    assert from_json(data | {"v": 1}) == replace(a_record(), by_name=True)


def test_of_llvms_features_only_those_that_code_is_made_of_are_kept():
    cpu = replace(TARGET, features="+avx2,+sha,-zu,+fma,-avx512f")
    kept = record_of("t", candidate(), cpu, Timing((1.0,))).target
    assert kept == replace(cpu, features="+avx2,+fma")


def test_replay_uses_the_records_own_steps():
    dag = matmul()
    replayed = a_record().candidate(dag)
    assert replayed.key == candidate(dag).key
    assert replayed.sketch.target == TARGET


def test_replay_for_another_target_is_a_seed():
    other = replace(TARGET, threads=4)
    assert a_record().candidate(matmul(), other).sketch.target == other


def test_replay_of_a_step_of_another_version_is_rejected_by_name():
    data = to_json(a_record())
    data["steps"][0]["version"] = 9
    with pytest.raises(RecordError, match=r"'split' has version 9"):
        from_json(with_checksum(data))


def test_a_newer_schema_is_named():
    with pytest.raises(NewerSchemaError, match=r"schema 6 is newer than 5.*log:3.*update"):
        from_json({"v": 6}, "log:3")


@pytest.mark.parametrize("version", [None, 0, "1", True, 1.0, -1])
def test_an_unknown_schema_is_named(version):
    with pytest.raises(RecordError, match="unknown"):
        from_json({"v": version})


@pytest.mark.parametrize("field", ["task", "target", "steps", "decisions", "result", "seed"])
def test_a_missing_field_is_named(field):
    data = to_json(a_record())
    del data[field]
    with pytest.raises(RecordError, match=f"'{field}' is missing"):
        from_json(with_checksum(data), "log:1")


@pytest.mark.parametrize(
    "change",
    [
        {"result": {"seconds": [], "cache_state": "warm"}},
        {"result": {"seconds": [-1.0], "cache_state": "warm"}},
        {"result": {"seconds": [1.0], "cache_state": "tepid"}},
        {"result": {"stage": "magic", "kind": "", "message": ""}},
        {"decisions": {"x": "many"}},
        {"decisions": [1]},
        {"decisions": {"x": math.inf}},
        {"decisions": {"x": True}},
        {"decisions": {"x": -1}},
        {"decisions": {"x": 10**30}},
        {"decisions": {"x": 2.0}},
        {"decisions": {"": 2}},
        {"seed": True},
        {"seed": "7"},
        {"seed": 10**100},
        {"variant": ""},
        {"task": "\ud800"},
        {"phase": ["trial"]},
        {"time": -1.0},
        {"time": 10**400},
        {"versions": {"autosched": 1}},
        {"trial": 0},
        {"trial": 1.0},
        {"trial": True},
        {"predicted": 0.0},
        {"predicted": "1"},
        {"result": {"seconds": [1.0], "cache_state": "warm", "build_s": -1.0}},
        {"result": {"seconds": [0], "cache_state": "warm"}},
        {"result": {"seconds": [True], "cache_state": "warm"}},
        {"result": {"seconds": [1e-300], "cache_state": "warm"}},
        {"result": {"seconds": [1.0], "cache_state": "warm", "error": -1.0}},
        {"result": {"seconds": [1.0], "cache_state": "warm", "stage": "run"}},
        {"result": {"seconds": [1.0], "cache_state": ["warm"]}},
        {"result": {"stage": "run", "kind": "x"}},
        {"steps": [{"kind": "split", "version": 1, "stage": "C", "axis": "i"}]},
        {"steps": [{"kind": "split", "version": True, "stage": "C", "axis": "i", "factors": []}]},
        {"steps": [{"kind": "inline", "version": 1, "stage": 3}]},
        {"steps": "inline"},
        {"target": {"kind": "cpu", "arch": "x", "threads": 10**30}},
        {"target": {"kind": "cpu", "arch": "x", "vector_bytes": 1 << 40}},
        {"task": None},
        {"variant": 3},
        {"phase": "second"},
        {"time": math.inf},
        {"result": {"seconds": "123", "cache_state": "warm"}},
        {"result": {"seconds": [1.0], "cache_state": "warm", "error": math.nan}},
    ],
)
def test_a_wrong_value_is_an_error(change):
    with pytest.raises(RecordError, match="wrong value"):
        from_json(with_checksum(to_json(a_record()) | change))


@pytest.mark.parametrize(
    "names",
    [
        {"inputs": "AB", "stages": []},
        {"inputs": ["A", "B"], "stages": ["C"]},
        {"inputs": ["A", "B"]},
    ],
)
def test_wrong_names_of_an_old_schema_are_an_error(names):
    with pytest.raises(RecordError, match="wrong value"):
        from_json(with_checksum(to_json(a_record()) | {"v": 2, "names": names}))


def test_an_unknown_field_is_an_error():
    with pytest.raises(RecordError, match="field 'pid' is unknown"):
        from_json(with_checksum(to_json(a_record()) | {"pid": 7}))


def test_a_malformed_target_is_an_error():
    with pytest.raises(RecordError, match="not a target"):
        from_json(with_checksum(to_json(a_record()) | {"target": {"kind": "cpu", "speed": 9}}))


def test_candidates_are_equal_whatever_was_measured():
    slow = replace(a_record(Timing((9.0,))), time=99.0, seed=1)
    assert slow.candidate_key == a_record().candidate_key
    assert replace(slow, decisions={"0.0@1": 2}).candidate_key != slow.candidate_key
