"""Events: the log of every change of the metastore, written in the transaction of the change."""
