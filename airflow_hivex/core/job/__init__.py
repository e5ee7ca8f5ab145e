"""The data plane: Spark runs plans, pyarrow does small writes.

The modules of this package are sent to clusters; see ``core.runners.shipping``.
"""
