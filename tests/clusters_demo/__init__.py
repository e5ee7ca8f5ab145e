"""``make demo-clusters``: the quickstart DAG over real clusters, by a real scheduler."""
