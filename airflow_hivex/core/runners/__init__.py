"""The runners of jobs: each runs plans on the Spark of a cluster, and returns the results."""
