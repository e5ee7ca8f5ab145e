"""Hooks of mkdocs: links of CONTRIBUTING and CHANGELOG to the site become links between its pages.

These files are shown by others, too, so that their links are absolute. On the site they are relative, so that the build
verifies them, and a copy of the site on another host leads to its own pages.

In the docstrings on a page, the roles of Sphinx go: of :meth:`open`, the page shows the name.
"""

from __future__ import annotations

import re
from typing import Any

_LINK = re.compile(r"\]\(https://airflow-hivex\.readthedocs\.io/en/latest/([\w/-]+?)/(#[\w-]+)?\)")
_ROLE = re.compile(r":(?:attr|class|func|meth):(?=<code>)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return the text of a page with relative links. The pages of the root lie in the folder of the pages."""
    return _LINK.sub(r"](\1.md\2)", markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Return the text of a page without roles of Sphinx."""
    return _ROLE.sub("", html)
