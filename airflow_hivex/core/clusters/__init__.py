"""Clusters: the contents of hive.cluster.properties, and the choice of the cluster that runs a statement."""
