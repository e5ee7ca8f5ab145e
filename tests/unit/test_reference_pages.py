"""The pages of docs/reference that are written from the code."""

from __future__ import annotations

import pytest

from airflow_hivex.core import errors
from airflow_hivex.core.events.notification_log import EventType
from airflow_hivex.get_provider_info import get_provider_info
from scripts.reference_pages.pages import FOLDER, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_page_is_what_the_code_says(name: str) -> None:
    assert (FOLDER / name).read_text() == PAGES[name](), "run `make format`"


def test_every_error_event_and_connection_field_is_listed() -> None:
    listed = {name: (FOLDER / name).read_text() for name in PAGES}
    missing = [
        *(each for each in dir(errors) if each.endswith("Error") and f"`{each}`" not in listed["errors.md"]),
        *(each.value for each in EventType if f"| `{each.value}` |" not in listed["events.md"]),
        *(
            field
            for field in get_provider_info()["connection-types"][0]["conn-fields"]
            if f"| `{field}` |" not in listed["connection.md"]
        ),
    ]
    assert missing == []


def test_every_module_of_operators_that_users_name_is_listed() -> None:
    from pathlib import Path

    import airflow_hivex

    package = Path(airflow_hivex.__file__).parent
    text = (FOLDER / "operators.md").read_text()
    classes = [
        line.split("(")[0].removeprefix("class ")
        for folder in ("operators", "sensors")
        for module in (package / folder).glob("*.py")
        for line in module.read_text().splitlines()
        if line.startswith("class Hivex") and "BaseOperatorLink" not in line
    ]
    assert [name for name in classes if f"### {name}\n" not in text] == ["HivexSensor"]
