"""What is declared is used, and what is used is declared."""

from __future__ import annotations

import ast
import re
import sys
import tomllib

from tests.support.syntax import nodes

# Distributions whose modules are called otherwise.
MODULES = {
    "cuda-python": "cuda",
    "cuda-core": "cuda",
    "cuda-bindings": "cuda",
    "ml-dtypes": "ml_dtypes",
    "protobuf": "google",
    "scikit-learn": "sklearn",
    "vl-convert-python": "vl_convert",
}
# Comes with another distribution.
WITH = {
    "google": "onnx",
    "functorch": "torch",
    "threadpoolctl": "scikit-learn",
}
OWN = {"autosched", "sketch", "costmodel", "codegen"}


def _name(requirement: str) -> str:
    return re.split(r"[^\w-]", requirement, maxsplit=1)[0]


def _imported(package_sources) -> dict[str, str]:
    """Top-level modules that the packages import, each with a place."""
    found: dict[str, str] = {}
    for source in package_sources:
        for node in nodes(source.tree):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                names = [node.module]
            found |= {name.split(".")[0]: source.at(node) for name in names}
    return found


def test_nothing_in_dependencies_is_unused(root, package_sources):
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    imported = _imported(package_sources)
    wanted = {_name(item) for item in project["dependencies"]}
    assert {name for name in wanted if MODULES.get(name, name) not in imported} == set()


def test_nothing_is_imported_that_is_not_declared(root, package_sources):
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    groups = [project["dependencies"], *extras.values()]
    declared = {_name(item) for group in groups for item in group}
    known = {MODULES.get(name, name) for name in declared} | OWN | set(sys.stdlib_module_names)
    known |= {name for name, owner in WITH.items() if owner in declared}
    wrong = {name: at for name, at in _imported(package_sources).items() if name not in known}
    assert wrong == {}


def test_one_version_of_cuda_with_and_without_the_extra(root):
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    (python,) = (item for item in project["dependencies"] if _name(item) == "cuda-python")
    extra = project["optional-dependencies"]["cuda"]
    (bindings,) = (item for item in extra if _name(item) == "cuda-bindings")
    assert python.split("==")[1] == bindings.split("==")[1]


def test_every_extra_is_explained(root):
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    rows = re.findall(r"^\| (`.*?) \|", (root / "docs" / "install.md").read_text(), flags=re.M)
    listed = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    verdicts = {"ok", "advice", "absent", "missing"}
    assert listed - verdicts == set(project["optional-dependencies"])


def test_the_set_up_takes_the_versions_of_python_that_are_declared(root):
    wanted = tomllib.loads((root / "pyproject.toml").read_text())["project"]["requires-python"]
    script = (root / "scripts" / "setup").read_text()
    first, end = re.search(
        r"\(3, (\d+)\) <= sys.version_info\[:2\] < \(3, (\d+)\)", script
    ).groups()
    assert wanted == f">=3.{first},<3.{end}"
    newest_first = [f"python3.{minor}" for minor in reversed(range(int(first), int(end)))]
    assert f"python3 {' '.join(newest_first)}" in script
