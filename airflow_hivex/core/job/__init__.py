"""The data plane: Spark runs plans, pyarrow does small writes.

It is sent to clusters; see ``core.runners.shipping``.
"""
