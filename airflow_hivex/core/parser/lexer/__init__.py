"""The lexer: tokens, constants, names and types of a statement, each with its place in the text."""
