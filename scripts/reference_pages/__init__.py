"""The pages of docs/reference that are written from the code, each by a function that returns its text.

``python -m scripts.reference_pages`` writes them; with ``--check`` it fails if one is out of date.
"""
