"""The cache of metadata in a process: answers from memory that are never stale."""
