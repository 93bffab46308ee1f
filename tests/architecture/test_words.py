"""One word means one thing."""

from __future__ import annotations

import ast
from collections import defaultdict

# Names that stand in two modules, each with its reason.
TWICE = {
    "Loop": "autosched.host.loop replaces onnx's class, which is found by its name",
}


def test_no_public_class_name_stands_in_two_modules(package_sources):
    places: defaultdict[str, list[str]] = defaultdict(list)
    for source in package_sources:
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(source.at(node))
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert {name: where for name, where in twice.items() if name not in TWICE} == {}
    assert set(TWICE) <= set(twice)
