"""The networks of the zoo as functions; see ``zoo.build`` for what they have in common."""

from autosched.graph.ir import Network
from autosched.zoo.build import build


def resnet18(batch: int = 1, image: int = 224, seed: int = 0) -> Network:
    """ResNet-18."""
    return build("resnet-18", batch, image, seed)


def resnet34(batch: int = 1, image: int = 224, seed: int = 0) -> Network:
    """ResNet-34."""
    return build("resnet-34", batch, image, seed)


def resnet50(batch: int = 1, image: int = 224, seed: int = 0) -> Network:
    """ResNet-50, version 1.5."""
    return build("resnet-50", batch, image, seed)


def vgg16(batch: int = 1, image: int = 224, seed: int = 0) -> Network:
    """VGG-16; its first dense layer grows with the image."""
    return build("vgg-16", batch, image, seed)


def inception_v3(batch: int = 1, image: int = 299, seed: int = 0) -> Network:
    """Inception v3 without its auxiliary classifier; images of 75 pixels at least."""
    return build("inception-v3", batch, image, seed)


def mobilenet_v1(batch: int = 1, image: int = 224, seed: int = 0) -> Network:
    """MobileNet v1."""
    return build("mobilenet-v1", batch, image, seed)


def mobilenet_v2(batch: int = 1, image: int = 224, seed: int = 0) -> Network:
    """MobileNet v2."""
    return build("mobilenet-v2", batch, image, seed)


def squeezenet(batch: int = 1, image: int = 224, seed: int = 0) -> Network:
    """SqueezeNet 1.1."""
    return build("squeezenet-1.1", batch, image, seed)


def resnet3d18(batch: int = 1, image: int = 112, seed: int = 0) -> Network:
    """ResNet-18 of 3-D convolutions, for clips of 16 frames of ``image`` pixels."""
    return build("resnet3d-18", batch, image, seed)


def dcgan(batch: int = 1, seed: int = 0) -> Network:
    """DCGAN's generator of images of 64 pixels."""
    return build("dcgan", batch, seed=seed)


def dla34(batch: int = 1, image: int = 512, seed: int = 0) -> Network:
    """DLA-34 with CenterNet's heads, for images of a multiple of 32 pixels."""
    return build("dla-34", batch, image, seed)


def bert_base(batch: int = 1, tokens: int = 128, seed: int = 0) -> Network:
    """BERT, base size: ``input_ids`` of at most 512 tokens to hidden states."""
    return build("bert-base", batch, tokens, seed)


def mlp(batch: int = 1, image: int = 28, seed: int = 0) -> Network:
    """A perceptron of three layers, for ``image * image`` flattened pixels."""
    return build("mlp", batch, image, seed)
