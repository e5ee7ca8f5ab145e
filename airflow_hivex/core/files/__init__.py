"""Files of a cluster; fsspec is imported here alone."""
