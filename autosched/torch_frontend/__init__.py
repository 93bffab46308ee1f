"""PyTorch modules as networks, and autosched as a backend of ``torch.compile``."""

from autosched.torch_frontend.export import from_torch

__all__ = ["from_torch"]
