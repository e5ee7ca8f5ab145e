"""Writes the pages; with --check, fails for each page that is out of date."""

from __future__ import annotations

import sys

from scripts.reference_pages.pages import FOLDER, PAGES


def main() -> None:
    """Write the pages, or report that they are out of date."""
    is_check = "--check" in sys.argv[1:]
    for name, written in PAGES.items():
        page, text = FOLDER / name, written()
        if is_check and (not page.exists() or page.read_text() != text):
            sys.exit(f"docs/reference/{name} is out of date: run `make format`")
        page.write_text(text)


if __name__ == "__main__":
    main()
