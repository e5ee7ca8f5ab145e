"""The steps of every statement: context, transaction, names, locks, snapshot, route, plan, write and commit."""
