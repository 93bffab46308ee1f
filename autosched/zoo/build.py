"""The zoo's one entry: a network by its name."""

from collections.abc import Callable, Mapping
from typing import Final, get_args

from autosched.graph.errors import GraphError
from autosched.graph.ir import Network
from autosched.graph.ops.base import Layout
from autosched.system.limits import check_whole
from autosched.zoo.bert import BERT_BASE, add_bert
from autosched.zoo.dcgan import add_dcgan
from autosched.zoo.dla import add_dla34
from autosched.zoo.inception import add_inception_v3
from autosched.zoo.layers import LayerBuilder
from autosched.zoo.mlp import add_mlp
from autosched.zoo.mobilenet import add_mobilenet_v1, add_mobilenet_v2
from autosched.zoo.resnet import RESNET_18, RESNET_34, RESNET_50, add_resnet
from autosched.zoo.resnet3d import add_resnet3d18
from autosched.zoo.squeezenet import add_squeezenet
from autosched.zoo.vgg import add_vgg16
from sketch.errors import suggestion

_FAMILIES: Final[Mapping[str, Callable[[LayerBuilder, int, int | None], None]]] = {
    "resnet-18": lambda layers, batch, image: add_resnet(layers, RESNET_18, batch, image),
    "resnet-34": lambda layers, batch, image: add_resnet(layers, RESNET_34, batch, image),
    "resnet-50": lambda layers, batch, image: add_resnet(layers, RESNET_50, batch, image),
    "vgg-16": add_vgg16,
    "inception-v3": add_inception_v3,
    "mobilenet-v1": add_mobilenet_v1,
    "mobilenet-v2": add_mobilenet_v2,
    "squeezenet-1.1": add_squeezenet,
    "resnet3d-18": add_resnet3d18,
    "dcgan": add_dcgan,
    "dla-34": add_dla34,
    "bert-base": lambda layers, batch, image: add_bert(layers, BERT_BASE, batch, image),
    "mlp": add_mlp,
}
NAMES: Final = tuple(_FAMILIES)
# What people look for the same network under.
_ALIASES: Final[Mapping[str, str]] = {"centernet": "dla-34"}


def build(
    name: str,
    batch: int = 1,
    image: int | None = None,
    seed: int = 0,
    layout: Layout = "NCHW",
) -> Network:
    """The network ``name`` with weights drawn from ``seed``.

        >>> print(asd.zoo.build("mlp", image=4))
        Network(mlp, data: float32[1, 16] -> logits: float32[1, 10], 5 nodes)

    Args:
        name: one of ``NAMES``, or "centernet", which is "dla-34" with its heads.
        batch: extent of the first dimension of the input.
        image: height and width of the input in pixels (for bert-base: tokens of a sequence); the
            family's own default if None.
        seed: seeds all weights; they depend on neither ``batch`` nor ``image`` (but for the first
            dense layer of an mlp or vgg, whose size they give).
        layout: of images (and of videos, with depth before height) among inputs and outputs.

    Raises:
        GraphError: unknown name (the message lists all, and the closest first) or layout, or a
            batch, an image or a seed that is no whole number, or too small for the network.
    """
    check_whole("batch", batch, 1, GraphError)
    check_whole("seed", seed, 0, GraphError)
    if image is not None:
        check_whole("image", image, 1, GraphError)
    if layout not in get_args(Layout):
        layouts = " and ".join(get_args(Layout))
        raise GraphError(f"no layout is called {layout!r}", "zoo", f"there are {layouts}")
    check_name(name)
    layers = LayerBuilder(name, seed, layout == "NHWC")
    _FAMILIES[_ALIASES.get(name, name)](layers, batch, image)
    return layers.finish()


def check_name(name: str) -> None:
    """Raise GraphError unless a network is called so; it lists all, and the closest first."""
    known = (*NAMES, *_ALIASES)
    if name not in known:
        raise GraphError(f"no network is called {name!r}", "zoo", suggestion(name, known))
