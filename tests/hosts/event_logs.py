"""What Spark notes of jobs in its event logs: the host of the driver, and the hosts whose executors ran tasks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_TAG = re.compile(r"hivex_(\d+)_")


@dataclass
class Places:
    """The addresses of the hosts of a statement's job."""

    driver: str
    executors: set[str] = field(default_factory=set)


def event_log(folder: Path) -> dict[str, str]:
    """Return the configuration with which a driver writes its events below a folder, which is made."""
    folder.mkdir(exist_ok=True)
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }


def places_of_transactions(folders: Iterable[Path]) -> dict[int, Places]:
    """Return a dict from transactions of one metastore to the places of their jobs."""
    found: dict[int, Places] = {}
    for file in (each for folder in folders for each in folder.iterdir()):
        driver = ""
        transactions: dict[int, int] = {}
        for event in _events(file):
            match event["Event"]:
                case "SparkListenerBlockManagerAdded" if event["Block Manager ID"]["Executor ID"] == "driver":
                    driver = event["Block Manager ID"]["Host"]
                case "SparkListenerJobStart":
                    for txn_id in _TAG.findall(event["Properties"].get("spark.job.tags", "")):
                        transactions |= dict.fromkeys(event["Stage IDs"], int(txn_id))
                case "SparkListenerTaskEnd" if event["Stage ID"] in transactions:
                    places = found.setdefault(transactions[event["Stage ID"]], Places(driver))
                    places.executors.add(event["Task Info"]["Host"])
    return found


def _events(file: Path) -> Iterator[dict[str, Any]]:
    for line in file.read_text().splitlines(keepends=True):
        # A driver that runs may have written a part of a line.
        if line.endswith("\n"):
            yield json.loads(line)
