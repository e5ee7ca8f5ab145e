"""Functions that return DAGs. A DAG file imports such a function and calls it."""
