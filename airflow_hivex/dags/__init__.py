"""DAGs of this package, for DAG files of two lines: import a function that returns a DAG, and call it."""
