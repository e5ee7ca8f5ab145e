"""The import of an existing Hive metastore: the answers of its Thrift server, as objects of the catalog."""
