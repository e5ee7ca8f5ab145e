"""The words of a statement: tokens, constants, names and types, each with its place in the text."""
