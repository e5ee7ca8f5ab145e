"""The grammar: the SYNTAX of a class describes the text of a statement, and the class or a function makes it."""
