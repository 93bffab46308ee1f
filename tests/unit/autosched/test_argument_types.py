"""Arguments of a wrong type: an error of ours says what was given and what is wanted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autosched as asd
from autosched.cli.app import main
from autosched.graph.errors import GraphError
from autosched.measure.simulated import SimulatedRunner
from autosched.records.errors import RecordError
from autosched.runtime.errors import InputError
from autosched.system.errors import OptionError, TaskError
from autosched.torch_frontend.options import backend_options
from autosched.tuning.options import QUICK
from codegen.host import host_target
from sketch.errors import ExpressionError

NET = asd.zoo.build("mlp", image=4)
A = asd.placeholder((4, 4), name="A")
B = asd.placeholder((4, 4), name="B", constant=True)
K = asd.reduce_axis(4)
C = asd.compute((4, 4), lambda i, j: asd.sum(A[i, K] * B[K, j], axis=K), name="C")
TASK = asd.Task(asd.ComputeDAG([C]), host_target(1))
any_value: Any = lambda value: value  # noqa: E731


@pytest.fixture(scope="module")
def module() -> asd.Module:
    return TASK.module({"B": np.ones((4, 4), np.float32)}, check=False)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "gmm.jsonl"
    task = asd.workloads.get("GMM").task(1, 16, 16, 16)
    task.tune(trials=8, log=path, options=QUICK, runner=SimulatedRunner(), quiet=True)
    return path


@pytest.mark.parametrize("given", [3, ["a.jsonl"], b"a.jsonl"])
def test_what_is_no_log(given: Any) -> None:
    uses: list[Callable[[], object]] = [
        lambda: asd.compile(NET, log=given, effort="none"),
        lambda: asd.tune(NET, log=given, trials=1, quiet=True),
        lambda: TASK.candidate(given),
        lambda: asd.open_store(given),
        lambda: backend_options({"log": given}),
    ]
    for use in uses:
        with pytest.raises(RecordError, match=r"is no log .*give the path of a file, or a URL"):
            use()


def test_constants_may_be_whatever_is_like_an_array(module: asd.Module) -> None:
    inputs = module.random_inputs()
    for given in ([[1.0] * 4] * 4, [[1] * 4] * 4, np.ones((4, 4), np.float32)):
        made = TASK.module({"B": any_value(given)}, check=False)
        assert np.array_equal(made.run(inputs)["C"], module.run(inputs)["C"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"B": [[1.0] * 4] * 3 + [[1.0]]}, r"'B' is no array: .*inhomogeneous"),
        ({"B": None}, r"'B' is object\[\], expected float32\[4, 4\]"),
        ({"B": np.ones((4, 4))}, r"'B' is float64\[4, 4\], expected float32"),
        ({"B": [[1.0] * 4]}, r"'B' is float32\[1, 4\], expected float32\[4, 4\]"),
        ([np.ones((4, 4))], r"given, \['B'\] needed .*give a dict"),
    ],
)
def test_what_is_no_constant(given: Any, message: str) -> None:
    with pytest.raises(TaskError, match=message):
        TASK.module(given, check=False)


def test_numbers_that_a_constant_cannot_hold_stay_what_they_are() -> None:
    w = asd.placeholder((2,), dtype="int32", name="W", constant=True)
    task = asd.Task(asd.compute((2,), lambda i: w[i] + 1, name="S"), host_target(1))
    assert task.module({"W": any_value([1, 2])}, check=False).run({})["S"].tolist() == [2, 3]
    with pytest.raises(TaskError, match=r"'W' is float64\[2\], expected int32"):
        task.module({"W": any_value([1.5, 2])}, check=False)


def test_what_is_no_axis() -> None:
    with pytest.raises(ExpressionError, match=r"shape \(2\.5,\) is not made of positive integers"):
        asd.reduce_axis(any_value(2.5))
    for axis in (1, None):
        with pytest.raises(ExpressionError, match=r"reduction sum needs reduce axes, got .*"):
            asd.sum(A[0, K], axis=any_value(axis))
    for given in (3, [3], [A, "B"]):
        with pytest.raises(ExpressionError, match=r"is no tensor .*give what compute returned"):
            asd.ComputeDAG(any_value(given))


@pytest.mark.parametrize(
    "arguments", [{"batch": "2"}, {"batch": 2.5}, {"batch": True}, {"image": "4"}, {"seed": -1}]
)
def test_what_is_no_size_of_a_network(arguments: dict[str, Any]) -> None:
    (name,) = arguments
    with pytest.raises(GraphError, match=rf"{name} is .*give a whole number that is at least"):
        asd.zoo.build("mlp", **arguments)


@pytest.mark.parametrize("repeats", [2.5, "3", 0, None])
def test_what_is_no_number_of_runs(repeats: Any, module: asd.Module) -> None:
    for method in (module.benchmark, module.profile, module.explain):
        with pytest.raises(InputError, match=r"repeats is .*a whole number that is at least 1"):
            method(repeats=repeats)
    with pytest.raises(InputError, match="warmup is 'a'"):
        module.benchmark(warmup=any_value("a"))


@pytest.mark.parametrize("seed", ["a", -1, 2.5, None, [1, 2], True])
def test_what_is_no_seed(seed: Any, module: asd.Module) -> None:
    with pytest.raises(InputError, match=r"seed is .*give a whole number"):
        module.random_inputs(seed)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tasks": NET}, "tasks is Network.*give a list of tasks"),
        ({"tasks": TASK}, "tasks is Task.*give a list of tasks"),
        ({"tasks": ["GMM"]}, r"tasks is \['GMM'\].*give a list of tasks"),
        ({"tasks": [TASK], "seeds": 3}, "seeds is 3 .*give a list of integers"),
        ({"tasks": [TASK], "seeds": "012"}, "seeds is '012' .*give a list of integers"),
    ],
)
def test_what_cannot_be_compared(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        asd.research.compare(**arguments)


def test_plots_take_a_task_and_runs_by_name(log: Path) -> None:
    task = asd.workloads.get("GMM").task(1, 16, 16, 16)
    assert asd.plots.landscape(log, task).get_title() == (
        asd.plots.landscape(log, task.key[:6]).get_title()
    )
    for wrong in (TASK, 3, "ffff"):
        with pytest.raises(OptionError, match=r"there is no task .*known: "):
            asd.plots.landscape(log, any_value(wrong))
    for runs in (log, [log]):
        with pytest.raises(OptionError, match="give runs by name"):
            asd.plots.compare(any_value(runs))


def test_a_task_of_tensors_is_for_this_machine() -> None:
    expected = asd.Task(asd.ComputeDAG([C]), asd.Target("cpu"))
    for program in (C, [C], asd.ComputeDAG(C)):
        task = asd.Task(program)
        assert task.key == expected.key and task.target == expected.target
    with pytest.raises(TaskError, match="3 is no program"):
        asd.Task(any_value(3))


def test_a_stage_is_a_function() -> None:
    with pytest.raises(ExpressionError, match=r"3 is no function \| stage s \| give lambda"):
        asd.compute((2,), any_value(3), name="s")


POLICIES = """
class Tuples:
    def __init__(self, space, scorer, rng, measured):
        pass
    def ask(self, count):
        return [(1, 2)]
    def tell(self, candidates, results):
        pass

class Fails(Tuples):
    def ask(self, count):
        return {}["key"]

class Unmade(Tuples):
    def __init__(self, space, scorer, rng, measured):
        raise ValueError("no memory")
"""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Tuples", "(1, 2) is no candidate | ask of search policy Tuples | return a list of"),
        ("Fails", "it raised KeyError: 'key' | ask of search policy Fails"),
        ("Unmade", "it raised ValueError: no memory | the maker of the search policy"),
    ],
)
def test_a_policy_that_fails_is_one_line(
    name: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(POLICIES)
    line = f"tune --workload GMM --args n=1,m=8,k=8 --trials 2 --policy {path}:{name} --quiet"
    assert main([*line.split(), "--log", str(tmp_path / "log.jsonl")]) == 1
    (told,) = [line for line in capsys.readouterr().err.splitlines() if "warning" not in line]
    assert message in told
