"""Clusters: what hive.cluster.properties says, and which cluster runs a statement."""
