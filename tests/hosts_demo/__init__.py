"""``make demo-hosts``: the quickstart DAG over real clusters, by a real scheduler, each on hosts of their own."""
