"""TPC-H over two clusters: loaded, refreshed by RF1 and RF2, and asked its 22 queries; every step is verified."""
