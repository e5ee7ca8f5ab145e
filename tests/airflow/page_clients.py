"""Clients of the page Hivex as users with roles, against a real application of Airflow in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

HEADERS = {"X-Hivex-Action": "1"}


def application() -> Any:
    """Return the application of an api-server."""
    from airflow.api_fastapi.app import create_app

    return create_app(apps="core")


def client_of(app: Any, role: str | None) -> TestClient:
    """Return a client that is logged in with a role, or an anonymous one."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from fastapi.testclient import TestClient

    # An error is an answer here, as it is for browsers.
    client = TestClient(app, raise_server_exceptions=False, base_url="http://localhost:8080")
    if role is not None:
        user = SimpleAuthManagerUser(username=f"a {role}", role=role)
        client.headers["Authorization"] = f"Bearer {get_auth_manager().generate_jwt(user)}"
    return client


def read(client: TestClient, path: str, **parameters: Any) -> Any:
    """Return the answer of a route of the page that has to be a success."""
    answer = client.get(f"/hivex/api/{path}", params={"conn_id": "hivex_default", **parameters})
    assert answer.status_code == 200, answer.text
    return answer.json()


def post(client: TestClient, path: str, body: Any, **headers: str) -> Any:
    """Return the answer to a request as the page sends it."""
    return client.post(
        f"/hivex/api/{path}", params={"conn_id": "hivex_default"}, json=body, headers={**HEADERS, **headers}
    )
