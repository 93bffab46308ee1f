"""Who may import whom, and where heavy libraries may be imported."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from tests.support.syntax import nodes

ALLOWED = {
    "autosched": {"autosched", "costmodel", "codegen", "sketch"},
    "costmodel": {"costmodel", "sketch"},
    "codegen": {"codegen", "sketch"},
    "sketch": {"sketch"},
}
# Each heavy library belongs to one corner of the tree.
HEAVY = {
    "cuda": ("codegen/cuda/", "codegen/gpu/"),
    "lightgbm": ("costmodel/",),
    "llvmlite": ("codegen/", "costmodel/machine_code.py"),
    "onnx": (
        "autosched/onnx/importer/",
        "autosched/onnx/export/",
        "autosched/onnx_backend.py",
        "autosched/host/engines.py",
        "autosched/host/node_names.py",
        "autosched/host/operators/",
    ),
    "onnxruntime": ("autosched/",),
    "openvino": (),
    "pandas": ("autosched/",),
    "ray": ("autosched/fleet/",),
    "scipy": (),
    "sklearn": ("costmodel/",),
    "sympy": ("sketch/verify/symbolic.py",),
    "torch": ("autosched/torch_frontend/",),
}


def imported_modules(tree: ast.AST):
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node, node.module


def test_packages_import_downwards_only(package_sources):
    wrong = [
        f"{source.at(node)} imports {name}"
        for source in package_sources
        for node, name in imported_modules(source.tree)
        if name.split(".")[0] in ALLOWED and name.split(".")[0] not in ALLOWED[source.package]
    ]
    assert wrong == []


def test_packages_import_neither_tests_nor_benchmarks(package_sources):
    wrong = [
        f"{source.at(node)} imports {name}"
        for source in package_sources
        for node, name in imported_modules(source.tree)
        if name.split(".")[0] in ("tests", "benchmarks")
    ]
    assert wrong == []


def test_heavy_libraries_stay_in_their_corner(package_sources):
    wrong = [
        f"{source.at(node)} imports {name}"
        for source in package_sources
        for node, name in imported_modules(source.tree)
        if name.split(".")[0] in HEAVY
        and not source.path.startswith(HEAVY[name.split(".")[0]] or ("nowhere",))
    ]
    assert wrong == []


@pytest.mark.parametrize("module", ["autosched", "sketch", "codegen", "costmodel", "autosched.cli"])
def test_a_bare_import_is_light(module):
    script = f"import sys, {module}; print(*sorted(set(sys.modules) & set({sorted(HEAVY)})))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == []
