"""SQLAlchemy's own plugin of pytest, as README.dialects says, for the dialect of this package.

It is named by ``-p`` and no conftest, as it would filter all tests of a run.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.dialect import register

register()
pytest.register_assert_rewrite("sqlalchemy.testing.assertions")

from sqlalchemy.testing import provision  # noqa: E402
from sqlalchemy.testing.plugin.pytestplugin import *  # noqa: E402, F403 - the hooks of the plugin


@provision.post_configure_engine.for_db("hivex")
def create_schemas(url: Any, engine: Any, follower_ident: str | None) -> None:
    """Create the two databases that the suite expects besides that of the connection."""
    with engine.begin() as connection:
        for name in ("test_schema", "test_schema_2"):
            connection.exec_driver_sql(f"CREATE DATABASE IF NOT EXISTS {name}")


@provision.temp_table_keyword_args.for_db("hivex")
def temporary(cfg: Any, engine: Any) -> dict[str, Any]:
    """Return the arguments of a ``Table`` that make it a temporary one."""
    return {"prefixes": ["TEMPORARY"]}
