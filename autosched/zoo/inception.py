"""Inception v3 (Szegedy et al., 2016): what runs at inference, without the auxiliary classifier."""

from __future__ import annotations

from typing import Final

from autosched.zoo.layers import LayerBuilder

_CLASSES: Final = 1000
_CALIBRATION: Final = (1, 3, 299, 299)
_EPSILON: Final = 1e-3
_WIDTHS_35: Final = (32, 64, 64)  # of the pooled branch of the modules on 35x35 maps
_WIDTHS_17: Final = (128, 160, 160, 192)  # of the 7x7 branches of the modules on 17x17 maps


def add_inception_v3(layers: LayerBuilder, batch: int, image: int | None) -> None:
    """Add Inception v3 for inputs ``[batch, 3, image, image]`` (299 pixels if None)."""
    size = 299 if image is None else image
    net = _Inception(layers)
    x = net.stem(layers.input((batch, 3, size, size), _CALIBRATION))
    for index, pooled in enumerate(_WIDTHS_35):
        x = net.module_35(x, f"mixed35.{index}", pooled)
    x = net.reduce_35(x, "reduce35")
    for index, width in enumerate(_WIDTHS_17):
        x = net.module_17(x, f"mixed17.{index}", width)
    x = net.reduce_17(x, "reduce17")
    for index in range(2):
        x = net.module_8(x, f"mixed8.{index}")
    layers.dense(layers.global_avg_pool(x, "pool"), "fc", _CLASSES)


class _Inception:
    """The modules, named after the size of their maps at 299 pixels."""

    def __init__(self, layers: LayerBuilder) -> None:
        self._layers = layers

    def stem(self, x: str) -> str:
        """35x35 maps of 192 channels."""
        x = self._conv(x, "stem.1", 32, 3, 2, 0)
        x = self._conv(x, "stem.2", 32, 3, 1, 0)
        x = self._conv(x, "stem.3", 64, 3)
        x = self._layers.max_pool(x, "stem.pool1", 3, 2, 0)
        x = self._conv(x, "stem.4", 80, 1)
        x = self._conv(x, "stem.5", 192, 3, 1, 0)
        return self._layers.max_pool(x, "stem.pool2", 3, 2, 0)

    def module_35(self, x: str, label: str, pooled: int) -> str:
        """1x1; 5x5; two 3x3; pooling."""
        single = self._conv(x, f"{label}.1x1", 64, 1)
        wide = self._conv(self._conv(x, f"{label}.5x5.1", 48, 1), f"{label}.5x5.2", 64, 5)
        double = self._conv(x, f"{label}.3x3.1", 64, 1)
        double = self._conv(double, f"{label}.3x3.2", 96, 3)
        double = self._conv(double, f"{label}.3x3.3", 96, 3)
        pool = self._pooled(x, f"{label}.pool", pooled)
        return self._layers.concat((single, wide, double, pool), f"{label}.concat")

    def reduce_35(self, x: str, label: str) -> str:
        """3x3 maps, every second one."""
        single = self._conv(x, f"{label}.single", 384, 3, 2, 0)
        double = self._conv(x, f"{label}.double.1", 64, 1)
        double = self._conv(double, f"{label}.double.2", 96, 3)
        double = self._conv(double, f"{label}.double.3", 96, 3, 2, 0)
        pool = self._layers.max_pool(x, f"{label}.pool", 3, 2, 0)
        return self._layers.concat((single, double, pool), f"{label}.concat")

    def module_17(self, x: str, label: str, width: int) -> str:
        """1x1; a 7x7 and a double 7x7 convolution, each split into rows and columns; pooling."""
        single = self._conv(x, f"{label}.1x1", 192, 1)
        seven = self._conv(x, f"{label}.7x7.1", width, 1)
        seven = self._conv(seven, f"{label}.7x7.2", width, (1, 7))
        seven = self._conv(seven, f"{label}.7x7.3", 192, (7, 1))
        double = self._conv(x, f"{label}.double.1", width, 1)
        double = self._conv(double, f"{label}.double.2", width, (7, 1))
        double = self._conv(double, f"{label}.double.3", width, (1, 7))
        double = self._conv(double, f"{label}.double.4", width, (7, 1))
        double = self._conv(double, f"{label}.double.5", 192, (1, 7))
        pool = self._pooled(x, f"{label}.pool", 192)
        return self._layers.concat((single, seven, double, pool), f"{label}.concat")

    def reduce_17(self, x: str, label: str) -> str:
        """3x3 and 7x7 convolutions, every second element."""
        three = self._conv(x, f"{label}.3x3.1", 192, 1)
        three = self._conv(three, f"{label}.3x3.2", 320, 3, 2, 0)
        seven = self._conv(x, f"{label}.7x7.1", 192, 1)
        seven = self._conv(seven, f"{label}.7x7.2", 192, (1, 7))
        seven = self._conv(seven, f"{label}.7x7.3", 192, (7, 1))
        seven = self._conv(seven, f"{label}.7x7.4", 192, 3, 2, 0)
        pool = self._layers.max_pool(x, f"{label}.pool", 3, 2, 0)
        return self._layers.concat((three, seven, pool), f"{label}.concat")

    def module_8(self, x: str, label: str) -> str:
        """1x1; a 3x3 and a double 3x3 convolution, each ending in rows beside columns; pooling."""
        single = self._conv(x, f"{label}.1x1", 320, 1)
        three = self._conv(x, f"{label}.3x3.1", 384, 1)
        three = self._rows_and_columns(three, f"{label}.3x3")
        double = self._conv(x, f"{label}.double.1", 448, 1)
        double = self._conv(double, f"{label}.double.2", 384, 3)
        double = self._rows_and_columns(double, f"{label}.double")
        pool = self._pooled(x, f"{label}.pool", 192)
        return self._layers.concat((single, three, double, pool), f"{label}.concat")

    def _rows_and_columns(self, x: str, label: str) -> str:
        rows = self._conv(x, f"{label}.rows", 384, (1, 3))
        columns = self._conv(x, f"{label}.columns", 384, (3, 1))
        return self._layers.concat((rows, columns), f"{label}.concat")

    def _pooled(self, x: str, label: str, channels: int) -> str:
        return self._conv(self._layers.average_pool(x, label, 3, 1), f"{label}.conv", channels, 1)

    def _conv(
        self,
        x: str,
        label: str,
        channels: int,
        kernel: int | tuple[int, int],
        stride: int = 1,
        padding: int | None = None,
    ) -> str:
        normalized = self._layers.conv_bn(
            x, label, channels, kernel, stride, padding, epsilon=_EPSILON
        )
        return self._layers.relu(normalized, f"{label}.relu")
