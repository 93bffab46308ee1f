"""Graphs that compute with complex numbers, as graphs of real ones."""

from autosched.torch_frontend.complex_numbers.real_form import real_form

__all__ = ["real_form"]
