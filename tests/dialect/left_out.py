"""A plugin of pytest that skips the tests of ``requirements.LEFT_OUT``, with the reason."""

from __future__ import annotations

import re

import pytest

from tests.dialect.requirements import LEFT_OUT


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for pattern, reason in LEFT_OUT.items():
            if re.search(pattern, item.nodeid):
                item.add_marker(pytest.mark.skip(reason=reason))
