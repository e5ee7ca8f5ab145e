"""A Hive Metastore endpoint: Hive's own Thrift protocol over the catalog, the transactions and the locks."""
