"""Events: a log of all changes of the metastore. Each event is written in the database transaction of its change."""
