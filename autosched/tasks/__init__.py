"""Tasks: what is tuned."""
