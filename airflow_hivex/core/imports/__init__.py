"""The import of Hive metastores by their Thrift servers, and of namespaces from other metastores of this kind."""
