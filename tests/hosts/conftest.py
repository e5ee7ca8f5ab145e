"""A network for the tests of a module, to which they add hosts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hosts import networks


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[networks.Network]:
    """A network without hosts. The tests are skipped where this user may not make one."""
    try:
        with networks.network(tmp_path_factory.mktemp("network")) as made:
            yield made
    except networks.HostsImpossibleError as error:
        pytest.skip(str(error))
