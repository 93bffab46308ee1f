"""A multi-layer perceptron for flattened square images."""

from typing import Final

from autosched.zoo.layers import LayerBuilder

_HIDDEN: Final = (512, 512)
_CLASSES: Final = 10


def add_mlp(layers: LayerBuilder, batch: int, image: int | None) -> None:
    """Add three dense layers for inputs ``[batch, image * image]`` (28 pixels if None)."""
    pixels = (28 if image is None else image) ** 2
    x = layers.input((batch, pixels), (4, pixels))
    for index, features in enumerate(_HIDDEN):
        x = layers.relu(layers.dense(x, f"fc{index + 1}", features), f"fc{index + 1}.relu")
    layers.dense(x, f"fc{len(_HIDDEN) + 1}", _CLASSES)
