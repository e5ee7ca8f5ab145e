"""The runners of jobs. A runner runs plans on the Spark of a cluster, and returns the results."""
