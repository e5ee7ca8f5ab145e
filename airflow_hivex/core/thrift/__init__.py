"""A Hive Metastore endpoint, which serves the catalog, the transactions and the locks by Hive's Thrift protocol."""
