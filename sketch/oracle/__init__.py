"""The oracle: NumPy interpreters of a DAG, with bounds of their rounding errors."""
