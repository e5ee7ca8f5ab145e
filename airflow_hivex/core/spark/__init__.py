"""The data plane: plans run on Spark, small writes by pyarrow. pyspark is imported here alone."""
