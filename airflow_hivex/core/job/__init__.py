"""The data plane: plans run on Spark, small writes by pyarrow. It ships to clusters; see ``core.runners.shipping``."""
