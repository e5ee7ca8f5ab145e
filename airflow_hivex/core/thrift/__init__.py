"""A Hive Metastore endpoint. It serves the catalog, the transactions and the locks by Hive's own Thrift protocol."""
