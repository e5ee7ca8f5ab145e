"""A process with a cache of its own that reads a table as long as others change it."""

from __future__ import annotations

import json
from pathlib import Path

from airflow_hivex.core import Metastore
from airflow_hivex.core.cache.counting import Kind


def read_while_others_write(url: str, clusters: dict[str, dict[str, str]], name: str, folder: Path) -> None:
    """Read by the text of the current list until the file ``stop`` is there, and check each answer.

    Each transaction that changes the table sets its property ``w`` to its write id, and adds a partition of that name,
    in two calls. The number of reads and hits is left in a file.
    """
    reads = 0
    with Metastore.open(url, clusters=clusters, default_cluster="c1") as metastore:
        catalog, transactions = metastore.catalog, metastore.transactions
        while not (folder / "stop").exists() or reads < 50:
            ids = transactions.valid_write_ids([name], transactions.valid_txns())[name]
            found = catalog.get_table(*name.split("."), str(ids))
            names = catalog.list_partition_names(*name.split("."), None, str(ids))
            committed = [each for each in range(2, ids.high_watermark + 1) if ids.is_valid(each)]
            if committed:
                assert int(found.parameters["w"]) >= committed[-1], f"{found.parameters} is older than {ids}"
            missing = [each for each in committed if f"d=w{each}" not in names]
            assert not missing, f"partition w{missing[0]} is missing as of {ids}"
            reads += 1
            (folder / "ready").touch()
        assert metastore.cache is not None
        hits = metastore.cache.state().hits
    counts = {"reads": reads, "hits": hits.get(Kind.TABLE, 0) + hits.get(Kind.PARTITIONS, 0)}
    (folder / "counts").write_text(json.dumps(counts))
