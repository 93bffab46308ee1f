"""Names are printed, never read: what a stage, an axis or a loop is, is data."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from tests.support.syntax import nodes

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
# Where nothing is looked up by name, either.
FOUND_BY_IDENTITY = (
    *(f"sketch/{room}/" for room in (*ROOMS, "analysis", "nest", "verify")),
    "costmodel/extract/",
    "codegen/passes/",
)
# Files in them that may look things up by name, and why.
MAY_LOOK_UP = {
    "codegen/passes/restride.py": "callers say by name which argument is not dense",
    "costmodel/extract/extra.py": "features of users, which are known by their names",
    "costmodel/extract/operations.py": "the kind of a reducer",
    "sketch/nest/interpreter.py": "callers give arrays by name",
    "sketch/verify/symbolic.py": "inputs and outputs of two programs are compared by name",
    "sketch/lower/packing.py": "callers give the arrays of constants by name",
    "sketch/schedule/program.py": "finds what a person names: a stage, an axis",
    "sketch/schedule/stage_steps.py": "a name for printing is not one that is there already",
    "sketch/schedule/step_fields.py": "fields of steps",
    "sketch/schedule/step_json.py": "fields of steps",
    "sketch/schedule/step_reading.py": "fields of steps",
}


def reads(tree: ast.AST) -> Iterator[ast.Attribute]:
    """Methods that look into a text."""
    for node in nodes(tree):
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


def is_name(node: ast.AST) -> bool:
    """``stage.op.name``."""
    return isinstance(node, ast.Attribute) and node.attr == "name"


def keys(node: ast.AST) -> Sequence[ast.AST]:
    """What a node looks up, or compares."""
    match node:
        case ast.Compare(left=left, comparators=others):
            return left, *others
        case ast.Subscript(slice=ast.Tuple(elts=parts)):
            return parts
        case ast.Subscript(slice=key) | ast.DictComp(key=key) | ast.SetComp(elt=key):
            return (key,)
        case ast.Dict(keys=found):
            return [key for key in found if key is not None]
        case ast.Call(func=ast.Attribute(attr="get" | "index" | "find" | "add"), args=found):
            return found
    return ()


def look_ups(tree: ast.AST) -> Iterator[ast.AST]:
    """Comparisons of names, and what is kept by name."""
    return (node for node in nodes(tree) if any(map(is_name, keys(node))))


def test_nothing_is_looked_up_by_name(package_sources):
    found = {
        source.path: [source.at(node) for node in look_ups(source.tree)]
        for source in package_sources
        if source.path.startswith(FOUND_BY_IDENTITY)
    }
    users = {path: nodes for path, nodes in found.items() if nodes}
    assert {path: nodes for path, nodes in users.items() if path not in MAY_LOOK_UP} == {}
    assert sorted(MAY_LOOK_UP) == sorted(users), "listed, but it looks nothing up by name"


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
    for line in ("a.op.name == b", "plans[op.name, 0]", "{op.name: op}", "found.get(a.name)"):
        assert list(look_ups(ast.parse(line))), line
    for line in ("{op.name for op in ops}", "{op.name: op for op in ops}", "a.name in known"):
        assert list(look_ups(ast.parse(line))), line
    for line in ("a is b", "Compute(op.name, axes)", "plans[op]", "label(op.name)"):
        assert not list(look_ups(ast.parse(line))), line
    for line in ('raise ScheduleError(f"no axis {name}")', 'e = TaskError(f"{name} is missing")'):
        assert not list(prints(ast.parse(line))), line
