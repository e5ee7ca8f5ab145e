"""The plugin of Airflow that adds the page "Hivex" and a tab of task instances.

Every process of Airflow imports this module. So this module imports few other modules.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from airflow.plugins_manager import AirflowPlugin

from airflow_hivex import __version__

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

PREFIX = "hivex"
TASK_TAB = "Warehouse"
"""The title of the tab of task instances. ``static/task.js`` provides the component of the tab under this name."""


class LazyApplication:
    """The application of the page.

    The first request creates the application, because only an api-server needs FastAPI.
    """

    def __init__(self) -> None:
        self._application: Callable[[Scope, Receive, Send], Awaitable[None]] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the application of the page."""
        if self._application is None:
            from airflow_hivex.plugins.page.application import create_application

            self._application = create_application()
        await self._application(scope, receive, send)


class HivexPlugin(AirflowPlugin):
    """The page "Hivex" in the navigation of the Airflow UI, and the tab of task instances."""

    name = "hivex"
    fastapi_apps = [{"name": "Hivex", "url_prefix": f"/{PREFIX}", "app": LazyApplication()}]  # noqa: RUF012
    react_apps = [  # noqa: RUF012
        {
            "name": "Hivex",
            # A relative address, so that the base path of the UI comes before it.
            "bundle_url": f"{PREFIX}/static/hivex.js?v={__version__}",
            "destination": "nav",
            "category": "browse",
            "url_route": "hivex",
        },
        {
            "name": TASK_TAB,
            "bundle_url": f"{PREFIX}/static/task.js?v={__version__}",
            "destination": "task_instance",
            "url_route": "hivex-task",
        },
    ]
