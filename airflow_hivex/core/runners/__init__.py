"""The runners of jobs: each takes a plan to the Spark of a cluster, and brings the result back."""
