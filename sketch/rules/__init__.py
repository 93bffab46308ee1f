"""Generation rules: from a compute DAG to sketches."""
