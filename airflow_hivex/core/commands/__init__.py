"""The handlers of statements. A session finds the handler by the type of the statement."""
