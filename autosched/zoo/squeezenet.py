"""SqueezeNet 1.1 (Iandola et al., 2016): fire modules squeeze the channels, then expand them."""

from __future__ import annotations

from typing import Final

from autosched.zoo.layers import LayerBuilder

_CLASSES: Final = 1000
_CALIBRATION: Final = (2, 3, 64, 64)
_POOL: Final = (0, 0)

# Channels of each fire module: squeezed, and of either expansion.  _POOL: a maximum pooling.
_MODULES: Final = (
    _POOL, (16, 64), (16, 64),
    _POOL, (32, 128), (32, 128),
    _POOL, (48, 192), (48, 192), (64, 256), (64, 256),
)  # fmt: skip


def add_squeezenet(layers: LayerBuilder, batch: int, image: int | None) -> None:
    """Add SqueezeNet 1.1 for inputs ``[batch, 3, image, image]`` (224 pixels if None)."""
    size = 224 if image is None else image
    x = layers.input((batch, 3, size, size), _CALIBRATION)
    x = layers.relu(layers.conv(x, "stem", 64, 3, 2, 0), "stem.relu")
    for index, module in enumerate(_MODULES):
        if module == _POOL:
            x = layers.max_pool(x, f"pool{index + 2}", 3, 2, 0, ceil_mode=True)
        else:
            x = _fire(layers, x, f"fire{index + 2}", *module)
    x = layers.relu(layers.conv(x, "classifier", _CLASSES, 1), "classifier.relu")
    layers.global_avg_pool(x, "pool")


def _fire(layers: LayerBuilder, x: str, label: str, squeezed: int, expanded: int) -> str:
    x = _conv(layers, x, f"{label}.squeeze", squeezed, 1)
    parts = [_conv(layers, x, f"{label}.expand{k}x{k}", expanded, k) for k in (1, 3)]
    return layers.concat(parts, f"{label}.concat")


def _conv(layers: LayerBuilder, x: str, label: str, channels: int, kernel: int) -> str:
    return layers.relu(layers.conv(x, label, channels, kernel), f"{label}.relu")
