"""Compute DAGs: what is computed, without how."""
