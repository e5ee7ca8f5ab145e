"""Tables read by pyarrow in this process, without Spark."""
