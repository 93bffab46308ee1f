"""What the outputs of imported modules are called."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

import autosched as asd
from autosched.graph.errors import ModelImportError
from tests.support.lazily import lazily

torch = lazily("torch", "onnxscript")
modules = lazily("tests.support.torch_modules")
pytestmark = pytest.mark.usefixtures("torchlib")


class _Own:
    """What a module may return: a class with keys of its own."""

    def __init__(self, *parts: Any) -> None:
        self.parts = parts


class _OwnKey(NamedTuple):
    place: int

    def __str__(self) -> str:
        return f"part{self.place}"


def test_keys_of_users_are_called_as_they_say() -> None:
    from torch.utils import _pytree

    _pytree.register_pytree_node(
        _Own,
        lambda own: (list(own.parts), None),
        lambda parts, _: _Own(*parts),
        serialized_type_name="_Own",
        flatten_with_keys_fn=lambda own: (
            [(_OwnKey(n), part) for n, part in enumerate(own.parts)], None,
        ),
    )  # fmt: skip
    try:
        network = asd.from_torch(modules.Function(lambda x: _Own(x + 1, x - 1)), torch.ones(2))
    finally:
        _pytree._deregister_pytree_node(_Own)
    assert [value.name for value in network.outputs] == ["part0", "part1"]


def test_parts_without_names_are_numbered() -> None:
    x = torch.ones(2)
    several = asd.from_torch(modules.Function(lambda x: (x + 1, {"a": x, "b": x - 1})), x)
    assert [v.name for v in several.outputs] == ["output_0", "output_1.a", "output_1.b"]
    keys = asd.from_torch(modules.Function(lambda x: {1: x + 1, "1": x - 1}), x)
    assert [v.name for v in keys.outputs] == ["output_1", "output_1_again"]
    with_none = asd.from_torch(modules.Function(lambda x: {"a": x + 1, "n": None, "b": x - 1}), x)
    assert [v.name for v in with_none.outputs] == ["a", "b"]


def test_names_of_outputs_can_be_given() -> None:
    function, x = modules.Function(lambda x: (x + 1, x - 1)), torch.ones(2)
    network = asd.from_torch(function, x, output_names=["more", "less"])
    assert [value.name for value in network.outputs] == ["more", "less"]
    (name,) = (value.name for value in network.inputs)
    for wrong, reason in (
        (["a"], "for 2 outputs"),
        ("ab", "for 2 outputs"),
        (3, "3 for 2 outputs"),
        ({"a", "b"}, "for 2 outputs"),
        ([1, 2], "are not all names"),
        (["a", "a"], "a name twice"),
        (["a", name], "that of an input"),
        (["a", ""], "are not all names"),
    ):
        with pytest.raises(ModelImportError, match=f"output_names: .*{reason}"):
            asd.from_torch(function, x, output_names=wrong)
