"""Selections of rows by data, without a length that data decide: all rows are kept."""

from autosched.torch_frontend.all_rows.network import network_of_program, network_with_all_rows
from autosched.torch_frontend.all_rows.static_form import static_form

__all__ = ["network_of_program", "network_with_all_rows", "static_form"]
