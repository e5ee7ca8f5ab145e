"""The grammar: each statement is read by the SYNTAX line of its class, and made by the class or by a function."""
