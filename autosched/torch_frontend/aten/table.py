"""The table: which function converts each ATen operator."""

from collections.abc import Mapping
from typing import Final

from autosched.torch_frontend.aten.activation import ACTIVATIONS
from autosched.torch_frontend.aten.call import Converter
from autosched.torch_frontend.aten.elementwise import ELEMENTWISE
from autosched.torch_frontend.aten.fourier import FOURIER
from autosched.torch_frontend.aten.indexing import INDEXING
from autosched.torch_frontend.aten.movement import MOVEMENT
from autosched.torch_frontend.aten.norm import NORM
from autosched.torch_frontend.aten.products import PRODUCTS
from autosched.torch_frontend.aten.sampling import SAMPLING
from autosched.torch_frontend.aten.scattering import SCATTERING
from autosched.torch_frontend.aten.views import VIEWS
from autosched.torch_frontend.aten.windows import WINDOWS

CONVERTERS: Final[Mapping[str, Converter]] = {
    f"aten.{name}": converter
    for table in (
        ACTIVATIONS,
        ELEMENTWISE,
        INDEXING,
        MOVEMENT,
        NORM,
        PRODUCTS,
        SAMPLING,
        SCATTERING,
        VIEWS,
        WINDOWS,
    )
    for name, converter in table.items()
} | {f"autosched.{name}": converter for name, converter in FOURIER.items()}
