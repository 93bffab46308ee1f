"""Importers of operators of bytes with channels last, which onnxruntime's layout passes write.

    NhwcMaxPool(x)   ->   Transpose(MaxPool(Transpose(x)))

Graph passes choose layouts anyway, and take transposes that undo each other out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from autosched.onnx.importer.composer import Composer, Importer, applied
from autosched.onnx.importer.pooling import IMPORT_POOLING
from autosched.onnx.importer.quantize import IMPORT_QUANTISED
from autosched.onnx.importer.site import Site

_FLAG: Final = "channels_last"


@dataclass(frozen=True, slots=True)
class ChannelsLast:
    """An operator whose data and result have their channels last, always or where it says so.

    Attributes:
        operator: the one with channels second, of the same inputs and attributes.
        importer: of ``operator``.
        always: whether no attribute is needed.
    """

    operator: str
    importer: Importer
    always: bool = False

    def __call__(self, site: Site) -> None:
        """Import the node."""
        attributes = {name: value for name, value in site.attributes.items() if name != _FLAG}
        if not (self.always or site.attributes.get(_FLAG, 0)):
            self.importer(replace(site, attributes=attributes))
            return
        make = Composer(site)
        names = [make.moved(site.input(0), -1, 1), *site.node.input[1:]]
        (value,) = applied(site, self.importer, self.operator, names, attributes)
        make.emit(make.moved(value, 1, -1))


IMPORT_CHANNELS_LAST: Final[dict[str, Importer]] = {
    "NhwcMaxPool": ChannelsLast("MaxPool", IMPORT_POOLING["MaxPool"], always=True),
    "QLinearConv": ChannelsLast("QLinearConv", IMPORT_QUANTISED["QLinearConv"]),
}
