"""What a compiled graph is found by in the cache: equal only for what compiles to equal code."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import fields
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from autosched.api import resolve_target
from autosched.network_source import PathText
from autosched.records.store import open_store
from autosched.system.versions import software_versions
from autosched.torch_frontend.options import BackendOptions
from autosched.torch_frontend.tensors import digest_of

_EXPORTERS: Final = ("torch", "onnx", "onnxscript", "onnx_ir", "onnxruntime", "ml_dtypes")
_PACKAGES: Final = ("autosched", "codegen", "costmodel", "sketch")
# Operators whose meaning is that of torch's version; others are anybody's.
_NAMESPACES: Final = ("aten", "prims")
_MODULES: Final = ("_operator", "math", "torch")
# Where a graph is kept and what is said do not matter; the target and the log are more than their
# names.
_APART: Final = ("target", "threads", "log", "shapes", "cache", "cache_bytes", "quiet")
_CHOICES: Final = tuple(item.name for item in fields(BackendOptions) if item.name not in _APART)


def graph_key(
    graph: Any, args: Sequence[Any], static: Collection[int], options: BackendOptions
) -> str | None:
    """The key of a graph, compiled for certain arguments; None for one that has none.

    It covers the graph's code and its own tensors, dtypes, shapes and strides of the arguments, the
    elements of those that are constants, the options, the target's numbers, the log's bytes (of a
    log that is tuned into, its name) and the versions of the software.

    Args:
        graph: a ``torch.fx.GraphModule`` of ATen operators.
        args: tensors and numbers that it is called with.
        static: positions of the arguments that are constants.
        options: of the compilation.
    """
    if not all(_is_known(graph, node) for node in graph.graph.nodes):
        return None
    try:
        parts = [
            _software(),
            graph.code,
            [[name, _tensor(value, True)] for name, value in _own_tensors(graph)],
            [_argument(value, index in static) for index, value in enumerate(args)],
            _choices(options),
        ]
    except (RuntimeError, TypeError):  # elements that are no bytes: quantized, for example
        return None
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _is_known(graph: Any, node: Any) -> bool:
    """Whether the text of a node says what it computes."""
    import torch

    if node.op == "get_attr":
        return isinstance(_attribute(graph, node.target), torch.Tensor)
    if node.op != "call_function":
        return node.op in ("placeholder", "output")
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target.namespace in _NAMESPACES
    return getattr(node.target, "__module__", None) in _MODULES


def _attribute(graph: Any, path: str) -> Any:
    for name in path.split("."):
        graph = getattr(graph, name, None)
    return graph


def _own_tensors(graph: Any) -> Iterator[tuple[str, Any]]:
    """Names and values of the tensors that are part of a graph."""
    for node in graph.graph.nodes:
        if node.op == "get_attr":
            yield node.target, _attribute(graph, node.target)


def _argument(value: Any, constant: bool) -> list[Any]:
    if hasattr(value, "dtype"):
        return _tensor(value, constant)
    return [type(value).__name__, repr(value)]


def _tensor(value: Any, constant: bool) -> list[Any]:
    layout = [str(value.dtype), list(value.shape), list(value.stride())]
    return [*layout, digest_of(value)] if constant else layout


def _choices(options: BackendOptions) -> list[Any]:
    """All that is chosen, but for where it is kept."""
    import torch

    given = [[name, repr(getattr(options, name))] for name in _CHOICES]
    target = resolve_target(options.target, options.threads)
    return [
        given,
        target.to_json(),
        None if options.log is None else _log(options.log, options.measures),
        str(torch.get_default_dtype()),
    ]


def _log(log: PathText, tunes: bool) -> str:
    """A log that grows with every graph is one by its name."""
    store = open_store(log)
    return os.path.abspath(store.name) if tunes else store.state()


@cache
def _software() -> list[Any]:
    """Versions of all that makes code, and which files of ours these are: a checkout has others
    under the same version.
    """
    versions = software_versions()
    for name in _EXPORTERS:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = ""
    return [versions, _files(Path(__file__).parents[2])]


def _files(root: Path) -> str:
    digest = hashlib.sha256()
    for package in _PACKAGES:
        for path in sorted((root / package).rglob("*")):
            # Python writes compiled modules meanwhile, under names of their own first.
            if path.parent.name != "__pycache__" and path.is_file():
                state = path.stat()
                digest.update(
                    f"{path.relative_to(root)} {state.st_size} {state.st_mtime_ns}\n".encode()
                )
    return digest.hexdigest()
