"""Files of the clusters, through fsspec."""
