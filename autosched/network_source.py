"""Networks from what users give: a network, an ONNX model or its path, or several of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from os.path import isfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autosched.system.optional_packages import require

if TYPE_CHECKING:
    from autosched.graph.ir import Network

    AnyNetwork = Network | str | PathLike[str]
    SeveralNetworks = Sequence[Network | PathLike[str]]

PathText = str | PathLike[str]


def from_onnx(
    source: PathText | Any,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, Any] | None = None,
) -> Network:
    """Read an ONNX model (needs the ``onnx`` package).

    Args:
        source: path of the file, its bytes, or the loaded ``onnx.ModelProto``.
        shapes: shape by input name, for inputs whose shape the model leaves open.
        values: value by input name, for inputs that are constants from now on, such as
            ``{"sr": 16000}``; the network does not have them.

    Raises:
        ModelImportError: no such file, an invalid model, a shape or a value that does not fit, or
            operators that are not supported (all of them are listed).
        MissingPackageError: ``onnx`` is not installed.
    """
    from autosched.system.memory_limit import enough_memory

    require("onnx", "from_onnx", '"autosched[onnx]"')
    from autosched.onnx.importer import from_onnx as read

    with enough_memory("importing an ONNX model"):
        return read(Path(source) if isinstance(source, PathLike) else source, shapes, values)


def names_file(text: str) -> bool:
    """Whether a text is meant as the path of a model, not as the name of a network."""
    return text.endswith(".onnx") or isfile(text)


def network_of(source: AnyNetwork) -> Network:
    """The network itself, or the one in an ONNX file.

    Raises:
        OptionError: it is neither, such as the name of a network.
        ModelImportError: the file cannot be read, or leaves shapes open.
    """
    from autosched.graph.ir import Network
    from autosched.system.errors import OptionError

    if isinstance(source, Network):
        return source
    if isinstance(source, PathLike) or (isinstance(source, str) and names_file(source)):
        return from_onnx(source)
    raise OptionError(
        f"{source if isinstance(source, str) else type(source).__name__!r} is no network",
        hint='give zoo.build("resnet-18"), the path of an .onnx file or from_torch(module, ...)',
    )


def networks_of(source: AnyNetwork | SeveralNetworks) -> list[Network]:
    """A list of one network, or of all of several; raises OptionError as ``network_of`` does."""
    if isinstance(source, Sequence) and not isinstance(source, str):
        return [network_of(item) for item in source]
    return [network_of(source)]
