"""Rows of decisions by the thousand: drawing, feasibility, recording."""
