"""A real api-server of Airflow with users, and a headless Chromium that is logged in."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tests.airflow.runs import wait_until
from tests.ports import free_port
from tests.processes import end_with_parent

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

USERS = {"editor": "op", "viewer": "viewer"}
PASSWORD = "a password of tests"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def api_server(home: Path, environment: dict[str, str]) -> Iterator[str]:
    """Start ``airflow api-server`` on the database of ``home``; yield its URL."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    passwords = home / "page-passwords.json"
    passwords.write_text(json.dumps(dict.fromkeys(USERS, PASSWORD)))
    variables = {
        **os.environ,
        **environment,
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{name}:{role}" for name, role in USERS.items()),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__API__WORKERS": "1",
    }
    log = home / "api-server.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [str(Path(sys.executable).parent / "airflow"), "api-server", "--apps", "core", "--port", str(port)],
            env=variables,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=end_with_parent,
        )
    try:
        wait_until(lambda: _answers(url) or _ended(process, log))
        yield url
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the Chromium of this machine without a window."""
    from playwright.sync_api import sync_playwright

    path = next((found for name in CHROMIUM if (found := shutil.which(name))), None)
    assert path is not None, "there is no Chromium; install it with scripts/install-system-packages.sh chromium"
    with sync_playwright() as playwright:
        # Its sandbox does not work for root.
        options = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=path, args=options)
        try:
            yield browser
        finally:
            browser.close()


def log_in(browser: Browser, url: str, user: str, *, width: int = 1280, scheme: str = "light") -> BrowserContext:
    """Return a browser profile of a user, with a width and a theme."""
    request = urllib.request.Request(
        f"{url}/auth/token",
        data=json.dumps({"username": user, "password": PASSWORD}).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        token = json.load(answer)["access_token"]
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    context.add_cookies([{"name": "_token", "value": token, "url": url}])
    context.add_init_script(f"localStorage.setItem('theme', '{scheme}')")
    return context


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/api/v2/version", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _ended(process: subprocess.Popen[bytes], log: Path) -> bool:
    assert process.poll() is None, log.read_text()
    return False
