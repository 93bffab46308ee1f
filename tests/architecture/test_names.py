"""Names are printed, never read: what a stage, an axis or a loop is, is data."""

from __future__ import annotations

import ast
from collections.abc import Iterator

READING = (
    "endswith", "startswith", "rsplit", "split", "rpartition", "partition", "removesuffix",
    "removeprefix",
)  # fmt: skip
# Files below ``sketch`` that may take a text apart, and why.
MAY_READ = {
    "sketch/dag/printer.py": "puts negative numbers in brackets",
    "sketch/target/target.py": "LLVM's list of features is one text",
}
# Rooms in which schedules are made; the others print programs, hash them, or name new ones.
ROOMS = ("rules", "lower", "schedule", "population")
# Files in them that may make names or other texts, and why.
MAY_PRINT = {
    "sketch/lower/lower.py": "names of loop variables, which are compared by identity",
    "sketch/lower/packing.py": "the key of a way to prepare constants",
    "sketch/lower/placement.py": "names of loop variables, which are compared by identity",
    "sketch/rules/foreign.py": "says where a user's rule failed",
    "sketch/schedule/labels.py": "names of loops and decisions, for printing",
    "sketch/schedule/loop_steps.py": "says which factor is wrong",
    "sketch/schedule/sketch.py": "prints a sketch",
    "sketch/schedule/stage_names.py": "names of stages and axes that steps add",
    "sketch/schedule/step_fields.py": "says which field is wrong",
    "sketch/schedule/step_json.py": "writes results and decisions by position",
}


def reads(tree: ast.AST) -> Iterator[ast.Attribute]:
    """Methods that look into a text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in READING:
            yield node


def is_message(node: ast.AST) -> bool:
    """An error, or the text of an object."""
    match node:
        case ast.Raise():
            return True
        case ast.Call(func=ast.Name(id=name)):
            return name.endswith("Error")
        case ast.FunctionDef(name="__str__" | "__repr__"):
            return True
    return False


def prints(tree: ast.AST) -> Iterator[ast.JoinedStr]:
    """Texts with values in them, but for those of messages."""
    if is_message(tree):
        return
    if isinstance(tree, ast.JoinedStr):
        yield tree
        return
    for child in ast.iter_child_nodes(tree):
        yield from prints(child)


def test_no_name_is_taken_apart(package_sources):
    found = {
        source.path: [source.at(node) for node in reads(source.tree)]
        for source in package_sources
        if source.package == "sketch"
    }
    readers = {path: nodes for path, nodes in found.items() if nodes}
    assert {path: nodes for path, nodes in readers.items() if path not in MAY_READ} == {}
    assert sorted(MAY_READ) == sorted(readers), "listed, but it takes nothing apart"


def test_names_are_made_by_printers_alone(package_sources):
    rooms = tuple(f"sketch/{room}/" for room in ROOMS)
    found = {
        source.path: [source.at(node) for node in prints(source.tree)]
        for source in package_sources
        if source.path.startswith(rooms)
    }
    printers = {path: nodes for path, nodes in found.items() if nodes}
    assert {path: nodes for path, nodes in printers.items() if path not in MAY_PRINT} == {}
    assert sorted(MAY_PRINT) == sorted(printers), "listed, but it prints nothing"


def test_the_checks_find_what_they_look_for():
    for line in ('a.name.endswith("_part")', 'loop.rsplit(".", 1)[0]', 'x.rpartition("@")'):
        assert list(reads(ast.parse(line))), line
    assert list(prints(ast.parse('order = [f"{a.name}.0"]')))
    for line in ('raise ScheduleError(f"no axis {name}")', 'e = TaskError(f"{name} is missing")'):
        assert not list(prints(ast.parse(line))), line
