"""Selections of rows by data, without a length that data decide: all rows are kept."""

from autosched.torch_frontend.all_rows.static_form import static_form

__all__ = ["static_form"]
