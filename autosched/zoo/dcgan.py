"""DCGAN's generator (Radford et al., 2016): from a latent vector to an image of 64x64 pixels."""

from __future__ import annotations

from typing import Final

from autosched.graph.errors import GraphError
from autosched.zoo.layers import LayerBuilder

_LATENT: Final = 100
_WIDTHS: Final = (512, 256, 128, 64)
_SIZE: Final = 64


def add_dcgan(layers: LayerBuilder, batch: int, image: int | None) -> None:
    """Add the generator: latents ``[batch, 100, 1, 1]`` to images ``[batch, 3, 64, 64]``.

    Raises:
        GraphError: another image size; it follows from the layers.
    """
    if image not in (None, _SIZE):
        raise GraphError(f"dcgan makes images of {_SIZE} pixels, not {image}", "zoo")
    x = layers.input((batch, _LATENT, 1, 1), (8, _LATENT, 1, 1), "latent")
    for index, width in enumerate(_WIDTHS):
        stride, padding = (1, 0) if index == 0 else (2, 1)
        x = layers.conv_transpose_bn(x, f"up{index + 1}", width, 4, stride, padding)
        x = layers.relu(x, f"up{index + 1}.relu")
    x = layers.conv_transpose(x, f"up{len(_WIDTHS) + 1}", 3, 4, 2, 1)
    layers.output("image", layers.tanh(x, "tanh"))
