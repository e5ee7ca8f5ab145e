"""A hook of mkdocs: links of CONTRIBUTING and CHANGELOG to the site become links between its pages.

These files are shown by others, too, so that their links are absolute. On the site they are relative, so that the build
verifies them, and a copy of the site on another host leads to its own pages.
"""

from __future__ import annotations

import re
from typing import Any

_LINK = re.compile(r"\]\(https://airflow-hivex\.readthedocs\.io/en/latest/([\w/-]+?)/(#[\w-]+)?\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return the text of a page with relative links. The pages of the root lie in the folder of the pages."""
    return _LINK.sub(r"](\1.md\2)", markdown)
