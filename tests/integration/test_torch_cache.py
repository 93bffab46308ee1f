"""Compiled graphs that are kept on disk."""

from __future__ import annotations

import logging
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from autosched.graph.errors import ModelImportError
from autosched.torch_frontend.compiled_graph import CompiledGraph
from autosched.torch_frontend.graph_cache import KeptGraph, kept_graph
from autosched.torch_frontend.graph_key import _files, graph_key
from autosched.torch_frontend.options import BackendOptions
from tests.support.lazily import lazily

torch = lazily("torch", "onnxscript")
pytestmark = pytest.mark.usefixtures("torchlib")

STATIC = frozenset({1})


def traced(function: Any, *args: Any) -> Any:
    from torch.fx.experimental.proxy_tensor import make_fx

    return make_fx(function, tracing_mode="fake")(*args)


@dataclass(frozen=True)
class Case:
    """A graph of two arguments, the second a constant, that was compiled once into a cache."""

    graph: Any
    args: tuple[Any, Any]
    options: BackendOptions
    kept: KeptGraph
    file: Path


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory, torchlib: None) -> Case:
    folder = tmp_path_factory.mktemp("graphs")
    args = torch.randn(2, 3), torch.randn(3, 4)
    graph = traced(lambda x, w: (torch.relu(x @ w) * torch.tensor([1.0, 2.0, 3.0, 4.0]),), *args)
    options = BackendOptions(cache=folder, effort="none")
    CompiledGraph(graph, STATIC, options)(*args)
    (file,) = folder.iterdir()
    kept = kept_graph(graph, args, STATIC, options)
    assert kept is not None and file.name == f"{kept.name}.asd"
    return Case(graph, args, options, kept, file)


def test_a_graph_is_compiled_once_for_all_processes(
    case: Case, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def compiled(*_: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(CompiledGraph, "_compiled", compiled)
    again = CompiledGraph(case.graph, STATIC, case.options, "3/1")
    with caplog.at_level(logging.INFO, "autosched.torch"):
        torch.testing.assert_close(again(*case.args), case.graph(*case.args))
    (line,) = [r.getMessage() for r in caplog.records if r.name == "autosched.torch"]
    assert line.startswith("graph 3/1: 1 kernels, 0 on the host, ")
    assert line.endswith(" s, from the cache")
    with pytest.raises(AssertionError):
        CompiledGraph(case.graph, STATIC, replace(case.options, cache=False))(*case.args)


def test_results_are_compared_again(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that computes something else is removed, and the graph compiled."""
    original, files = CompiledGraph._run, []

    def wrong(self: Any, *args: Any) -> Any:
        return tuple(result + 1 for result in original(self, *args))

    def compiled(self: Any, kept: KeptGraph, args: Any) -> Any:
        files.append(case.file.exists())
        monkeypatch.setattr(CompiledGraph, "_run", original)
        shutil.copy(aside, case.file)
        return kept.load(), None

    aside = case.file.with_suffix(".copy")
    shutil.copy(case.file, aside)
    monkeypatch.setattr(CompiledGraph, "_run", wrong)
    monkeypatch.setattr(CompiledGraph, "_compiled", compiled)
    ours = CompiledGraph(case.graph, STATIC, case.options)(*case.args)
    torch.testing.assert_close(ours, case.graph(*case.args))
    assert files == [False]


def test_what_cannot_be_compiled_is_tried_once_for_all_processes(
    case: Case, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tried = []

    def compiled(*args: Any) -> Any:
        tried.append(args)
        raise ModelImportError("it is not supported")

    monkeypatch.setattr(CompiledGraph, "_compiled", compiled)
    options = replace(case.options, cache=tmp_path)
    for _ in range(2):
        ours = CompiledGraph(case.graph, STATIC, options)(*case.args)
        torch.testing.assert_close(ours, case.graph(*case.args))
    assert len(tried) == 1
    lines = [r.getMessage() for r in caplog.records if r.name == "autosched.torch"]
    assert len(lines) == 2 and lines[0] == lines[1]
    assert lines[0].endswith(" stays with torch: it is not supported")


def test_files_that_are_not_what_they_should_be_are_removed(case: Case, tmp_path: Path) -> None:
    files = replace(case.kept.files, folder=tmp_path)
    damaged, renamed = KeptGraph("graph-damaged", files), KeptGraph("graph-renamed", files)
    content = bytearray(case.file.read_bytes())
    (tmp_path / "graph-renamed.asd").write_bytes(content)
    content[len(content) // 2] ^= 1
    (tmp_path / "graph-damaged.asd").write_bytes(content)
    shutil.copy(case.file, tmp_path)
    assert damaged.load() is None
    assert renamed.load() is None
    assert replace(case.kept, files=files).load() is not None
    assert [path.name for path in tmp_path.iterdir()] == [case.file.name]


def test_a_graph_that_takes_half_of_the_cache_is_not_kept(case: Case, tmp_path: Path) -> None:
    module = case.kept.load()
    assert module is not None
    for most_bytes, count in ((1000, 0), (1 << 20, 1)):
        files = replace(case.kept.files, folder=tmp_path, most_bytes=most_bytes)
        replace(case.kept, files=files).save(module)
        assert len(list(tmp_path.iterdir())) == count


def test_a_folder_that_cannot_be_written_to_is_said(
    case: Case, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    module = case.kept.load()
    assert module is not None
    (tmp_path / "file").write_text("")
    files = replace(case.kept.files, folder=tmp_path / "file" / "folder")
    replace(case.kept, files=files).save(module)
    assert "a compiled graph is not kept" in caplog.text


def test_without_a_key_there_is_no_cache(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Other processes would refuse its files."""
    home = tmp_path / "home"
    home.write_text("")
    monkeypatch.setattr(Path, "home", lambda: home)
    folder = tmp_path / "graphs"
    options = replace(case.options, cache=folder)
    assert kept_graph(case.graph, case.args, STATIC, options) is None
    CompiledGraph(case.graph, STATIC, options)(*case.args)
    assert not folder.exists() and "no key can be" in caplog.text


def test_the_key_covers_all_that_decides_what_is_compiled(tmp_path: Path) -> None:
    x, w = torch.randn(2, 3), torch.randn(3, 4)
    log = tmp_path / "log.jsonl"
    plain = BackendOptions(log=log)

    def product(a: Any, b: Any) -> Any:
        return (a @ b,)

    def with_constant(number: float) -> Any:
        return lambda a, b: (a @ b + torch.tensor([number]),)

    graph = traced(product, x, w)

    def key(graph: Any = graph, x: Any = x, w: Any = w, options: Any = plain) -> str | None:
        return graph_key(graph, (x, w), STATIC, options)

    assert key() == key(traced(product, x, w), x + 1, w.clone())
    assert key() == key(options=replace(plain, cache=False, shapes=3))
    keys = [
        key(),
        key(w=w + 1),
        key(w=w.double()),
        key(x=torch.randn(5, 3)),
        key(x=torch.randn(3, 2).T),
        key(x=x.double()),
        key(x=2),
        key(x=True),
        key(traced(lambda a, b: (b.T @ a.T,), x, w)),
        key(traced(with_constant(1.0), x, w)),
        key(traced(with_constant(2.0), x, w)),
        key(options=replace(plain, threads=1)),
        key(options=replace(plain, effort="none")),
        key(options=replace(plain, accuracy="as written")),
        key(options=replace(plain, denormals="keep")),
        key(options=replace(plain, target="cpu-sse2")),
        key(options=replace(plain, trials=4)),
    ]
    log.write_text("{}")
    keys += [key()]
    assert len(set(keys)) == len(keys) and None not in keys


def test_what_python_writes_meanwhile_is_no_part_of_the_key(tmp_path: Path) -> None:
    package = tmp_path / "sketch"
    (package / "__pycache__").mkdir(parents=True)
    (package / "rule.py").write_text("")
    before = _files(tmp_path)
    (package / "__pycache__" / "rule.cpython-311.pyc.140123").write_text("half of it")
    assert _files(tmp_path) == before
    (package / "other.py").write_text("")
    assert _files(tmp_path) != before


def test_a_folder_that_cannot_be_looked_into_has_no_graph(case: Case, tmp_path: Path) -> None:
    for folder in (tmp_path / ("x" * 300), tmp_path / "x" / ("y" * 5000)):
        options = replace(case.options, cache=folder, trials=1, log=folder / "log.jsonl")
        kept = kept_graph(case.graph, case.args, STATIC, options)
        assert kept is not None
        assert (kept.load(), kept.refusal()) == (None, None)


def test_a_log_that_is_tuned_into_is_one_by_its_name(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    graph, args = traced(lambda x: (x + 1,), torch.ones(2)), (torch.ones(2),)
    options = BackendOptions(log=log, trials=4, cache=tmp_path / "cache")

    def kept() -> KeptGraph:
        found = kept_graph(graph, args, frozenset(), options)
        assert found is not None
        return found

    log.write_text("{}")
    first = kept()
    first.files.file(f"{first.name}.asd", lambda path: path.write_text(""))
    log.write_text("{}{}")
    assert kept().name == first.name
    assert list((tmp_path / "cache").iterdir())
    log.unlink()
    assert kept().name == first.name
    assert not list((tmp_path / "cache").iterdir())


def test_operators_of_others_have_no_key() -> None:
    library = torch.library.Library("autosched_tests", "FRAGMENT")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
    args = (torch.ones(2),)
    graph = traced(lambda x: (torch.ops.autosched_tests.twice(x),), *args)
    assert graph_key(graph, args, frozenset(), BackendOptions()) is None
