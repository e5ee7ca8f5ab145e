from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.core.execution.recorder import Recorder, recording


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    with recording() as recorder:
        yield recorder
