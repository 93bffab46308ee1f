"""DLA-34 as CenterNet has it: a deep layer aggregation backbone (Yu et al., 2018), iterative deep
aggregation upwards, and heads for objects as points (Zhou et al., 2019).

The variant whose convolutions are all plain (none deformable).  Maps are at a quarter of the
image's size: ``hm`` class scores, ``wh`` sizes, ``reg`` offsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from autosched.zoo.layers import LayerBuilder

_CALIBRATION: Final = (1, 3, 128, 128)
_CHANNELS: Final = (16, 32, 64, 128, 256, 512)  # of the levels, each half the size of the last
_DEPTHS: Final = (1, 2, 2, 1)  # of the trees on the levels from 2 on
_FIRST_LEVEL: Final = 2  # a quarter of the image's size
_HEAD_WIDTH: Final = 256
_HEADS: Final = {"hm": 80, "wh": 2, "reg": 2}


@dataclass(frozen=True, slots=True)
class _Map:
    """A value, and how many times larger than the first level's one of its pixels is."""

    value: str
    scale: int


def add_dla34(layers: LayerBuilder, batch: int, image: int | None) -> None:
    """Add DLA-34 for inputs ``[batch, 3, image, image]`` (512 pixels if None; multiples of 32)."""
    size = 512 if image is None else image
    net = _DeepLayerAggregation(layers)
    levels = net.backbone(layers.input((batch, 3, size, size), _CALIBRATION))
    features = net.aggregate(levels[_FIRST_LEVEL:])
    for name, channels in _HEADS.items():
        x = layers.relu(layers.conv(features, f"{name}.1", _HEAD_WIDTH, 3), f"{name}.1.relu")
        layers.output(name, layers.conv(x, f"{name}.2", channels, 1))


class _DeepLayerAggregation:
    def __init__(self, layers: LayerBuilder) -> None:
        self._layers = layers

    def backbone(self, x: str) -> list[str]:
        """The last value of every level."""
        x = self._conv(x, "base", _CHANNELS[0], 7)
        levels = [self._conv(x, "level0", _CHANNELS[0], 3)]
        levels.append(self._conv(levels[-1], "level1", _CHANNELS[1], 3, 2))
        for index, depth in enumerate(_DEPTHS):
            level = index + 2
            keep_input = level > _FIRST_LEVEL
            levels.append(
                self._tree(levels[-1], f"level{level}", depth, _CHANNELS[level], 2, (), keep_input)
            )
        return levels

    def aggregate(self, levels: Sequence[str]) -> str:
        """Bring all levels to the first one's size, the smallest maps first."""
        maps = [_Map(value, 1 << index) for index, value in enumerate(levels)]
        for step in range(len(levels) - 1):
            start = len(levels) - 2 - step
            channels = _CHANNELS[_FIRST_LEVEL + start]
            maps[start + 1 :] = self._ascend(maps[start:], f"up{step + 1}", channels)
        return maps[-1].value

    def _tree(
        self,
        x: str,
        label: str,
        depth: int,
        channels: int,
        stride: int,
        children: tuple[str, ...],
        keep_input: bool = False,
    ) -> str:
        """Two subtrees (blocks, at depth 1) one after the other; a root joins all children."""
        bottom = x
        if stride > 1:
            bottom = self._layers.max_pool(x, f"{label}.down", stride, stride, 0)
        if keep_input:
            children = (*children, bottom)
        if depth > 1:
            first = self._tree(x, f"{label}.1", depth - 1, channels, stride, ())
            second = (*children, first)
            return self._tree(first, f"{label}.2", depth - 1, channels, 1, second)
        shortcut = bottom
        if self._layers.shape(x)[1] != channels:
            shortcut = self._layers.conv_bn(bottom, f"{label}.project", channels, 1)
        first = self._block(x, shortcut, f"{label}.1", channels, stride)
        last = self._block(first, first, f"{label}.2", channels, 1)
        joined = self._layers.concat((last, first, *children), f"{label}.concat")
        return self._conv(joined, f"{label}.root", channels, 1)

    def _ascend(self, maps: Sequence[_Map], label: str, channels: int) -> list[_Map]:
        """All maps at the size and channels of the first; each joins what came before it."""
        scale = maps[0].scale
        joined = maps[0].value
        results = []
        for index, item in enumerate(maps[1:], start=1):
            raised = self._raise(item, f"{label}.{index}", channels, item.scale // scale)
            pair = self._layers.concat((joined, raised), f"{label}.{index}.concat")
            joined = self._conv(pair, f"{label}.{index}.node", channels, 3)
            results.append(_Map(joined, scale))
        return results

    def _raise(self, item: _Map, label: str, channels: int, factor: int) -> str:
        x = item.value
        if self._layers.shape(x)[1] != channels:
            x = self._conv(x, f"{label}.project", channels, 1)
        return x if factor == 1 else self._layers.upsample(x, f"{label}.upsample", factor)

    def _block(self, x: str, shortcut: str, label: str, channels: int, stride: int) -> str:
        main = self._conv(x, f"{label}.1", channels, 3, stride)
        main = self._layers.conv_bn(main, f"{label}.2", channels, 3)
        added = self._layers.add(main, shortcut, f"{label}.add")
        return self._layers.relu(added, f"{label}.out")

    def _conv(self, x: str, label: str, channels: int, kernel: int, stride: int = 1) -> str:
        normalized = self._layers.conv_bn(x, label, channels, kernel, stride)
        return self._layers.relu(normalized, f"{label}.relu")
