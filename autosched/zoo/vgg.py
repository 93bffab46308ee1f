"""VGG (Simonyan and Zisserman, 2014), configuration D: 16 layers with weights."""

from __future__ import annotations

from typing import Final

from autosched.zoo.layers import LayerBuilder

_CLASSES: Final = 1000
_HIDDEN: Final = 4096
_CALIBRATION: Final = (1, 3, 32, 32)
_STAGES: Final = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))


def add_vgg16(layers: LayerBuilder, batch: int, image: int | None) -> None:
    """Add VGG-16 for inputs ``[batch, 3, image, image]`` (224 pixels if None).

    The first dense layer has as many weights as the last map has elements, 7x7x512 at 224 pixels.
    """
    size = 224 if image is None else image
    x = layers.input((batch, 3, size, size), _CALIBRATION)
    for stage, (channels, depth) in enumerate(_STAGES):
        for index in range(depth):
            label = f"stage{stage + 1}.{index}"
            x = layers.relu(layers.conv(x, label, channels, 3), f"{label}.relu")
        x = layers.max_pool(x, f"stage{stage + 1}.pool", 2, 2, 0)
    x = layers.flatten(x, "flatten")
    for index in (1, 2):
        x = layers.relu(layers.dense(x, f"fc{index}", _HIDDEN), f"fc{index}.relu")
    layers.dense(x, "fc3", _CLASSES)
