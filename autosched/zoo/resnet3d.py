"""ResNet-18 over space and time (Tran et al., 2018): all convolutions are 3x3x3."""

from __future__ import annotations

from typing import Final

from autosched.zoo.layers import LayerBuilder

_CLASSES: Final = 400
_FRAMES: Final = 16
_CALIBRATION: Final = (1, 3, 16, 56, 56)
_WIDTHS: Final = (64, 128, 256, 512)
_BLOCKS: Final = 2


def add_resnet3d18(layers: LayerBuilder, batch: int, image: int | None) -> None:
    """Add it for clips ``[batch, 3, 16, image, image]`` (112 pixels if None)."""
    size = 112 if image is None else image
    x = layers.input((batch, 3, _FRAMES, size, size), _CALIBRATION)
    x = layers.relu(layers.conv_bn(x, "stem", 64, (3, 7, 7), (1, 2, 2)), "stem.relu")
    for stage, width in enumerate(_WIDTHS):
        for block in range(_BLOCKS):
            stride = 2 if stage > 0 and block == 0 else 1
            x = _basic(layers, x, f"stage{stage + 1}.{block}", width, stride)
    layers.dense(layers.global_avg_pool(x, "pool"), "fc", _CLASSES)


def _basic(layers: LayerBuilder, x: str, label: str, width: int, stride: int) -> str:
    shortcut = x
    if stride > 1:
        shortcut = layers.conv_bn(x, f"{label}.shortcut", width, 1, stride)
    main = layers.relu(layers.conv_bn(x, f"{label}.1", width, 3, stride), f"{label}.1.relu")
    main = layers.conv_bn(main, f"{label}.2", width, 3)
    return layers.relu(layers.add(main, shortcut, f"{label}.add"), f"{label}.out")
