"""The import of an existing Hive metastore: what its Thrift server tells, as objects of the catalog."""
