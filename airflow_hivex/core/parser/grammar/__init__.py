"""The grammar: each statement is read by the SYNTAX line of its class, or by a reader of its own."""
