"""Results, candidates, references to functions, CPU lists, wait statuses."""

import importlib.util
import pickle
import signal
import sys

import pytest

from autosched.measure import pinning
from autosched.measure.builder import build_candidate
from autosched.measure.errors import ChildDiedError, MeasureError
from autosched.measure.function_reference import reference_of, resolve
from autosched.measure.pinning import cores_first, parse_cpu_list
from autosched.measure.result import Failure, Timing
from autosched.measure.runner import DEFAULT_BUILD
from autosched.measure.zygote import describe_status
from autosched.tasks.candidate import Candidate
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import compute, placeholder
from sketch.schedule.sketch import Sketch
from sketch.target.target import Target


def test_a_timing_has_a_best_and_a_median():
    timing = Timing((3.0, 1.0, 2.0))
    assert (timing.best, timing.median) == (1.0, 2.0)


@pytest.mark.parametrize("seconds", [(), (0.0,), (-1.0,), (float("nan"),), (float("inf"),)])
def test_a_timing_is_positive_and_finite(seconds):
    with pytest.raises(ValueError, match="positive finite"):
        Timing(seconds)


def test_a_failure_reads_as_one_line():
    assert str(Failure("run", "SIGSEGV", "at once")) == "run: SIGSEGV: at once"


def test_equal_candidates_have_equal_keys():
    a = placeholder((4,), name="A")
    sketch = Sketch(
        ComputeDAG([compute((4,), lambda i: a[i] + 1, name="B")]), (), Target("cpu", "")
    )
    assert Candidate(sketch, {"x": 1, "y": 2}).key == Candidate(sketch, {"y": 2, "x": 1}).key
    assert Candidate(sketch, {"x": 1}).key != Candidate(sketch, {"x": 2}).key


def test_errors_survive_pickling():
    error = pickle.loads(pickle.dumps(ChildDiedError("SIGSEGV", "last words")))
    assert (error.kind, error.output) == ("SIGSEGV", "last words")


def test_a_module_function_is_referred_to_by_name():
    assert reference_of(build_candidate) == DEFAULT_BUILD
    assert resolve(DEFAULT_BUILD) is build_candidate


def test_a_function_of_a_script_is_referred_to_by_file(tmp_path):
    path = tmp_path / "script.py"
    path.write_text("def build(sketch, values):\n    return 42\n")
    spec = importlib.util.spec_from_file_location("some_script", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["some_script"] = module
    spec.loader.exec_module(module)
    assert reference_of(module.build) == f"{path}:build"
    assert resolve(f"{path}:build")(None, None) == 42


def test_nested_functions_and_methods_are_refused():
    def nested():
        """Out of reach for another process."""

    for function in (nested, lambda: 0, Timing.__str__):
        with pytest.raises(MeasureError, match="top of a module"):
            reference_of(function)


def test_cpu_lists_are_read_as_the_kernel_writes_them():
    assert parse_cpu_list("0-2,8\n") == (0, 1, 2, 8)
    assert parse_cpu_list("3") == (3,)


def test_threads_take_whole_cores_first(monkeypatch):
    monkeypatch.setattr(pinning, "siblings", lambda cpu: (cpu % 4, cpu % 4 + 4))
    assert cores_first(range(8)) == (0, 1, 2, 3, 4, 5, 6, 7)
    assert cores_first([0, 4, 1, 5]) == (0, 1, 4, 5)
    assert cores_first([4, 5]) == (4, 5)


def test_how_a_child_ended_is_said_in_words():
    assert describe_status(signal.SIGSEGV) == "SIGSEGV"
    assert describe_status(1 << 8) == "exit status 1"


def test_hardware_threads_of_a_core_are_read_as_the_kernel_names_them(monkeypatch, tmp_path):
    for cpu, text in enumerate(("0-1", "0-1", "2,3", "2,3")):
        topology = tmp_path / f"cpu{cpu}" / "topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(text + "\n")
    monkeypatch.setattr(pinning, "_SYSFS", tmp_path)
    assert [pinning.siblings(cpu) for cpu in (0, 3, 7)] == [(0, 1), (2, 3), (7,)]
    assert cores_first(range(4)) == (0, 2, 1, 3)
