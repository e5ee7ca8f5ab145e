"""Tables, partitions and transactions in a Hive metastore, made by its own client as Hive makes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_IO = "org.apache.hadoop.hive.ql.io"
_SERDE = "org.apache.hadoop.hive.serde2"
TEXT_OUTPUT = f"{_IO}.HiveIgnoreKeyTextOutputFormat"
FORMATS = {
    "orc": (f"{_IO}.orc.OrcInputFormat", f"{_IO}.orc.OrcOutputFormat", f"{_IO}.orc.OrcSerde"),
    "parquet": (
        f"{_IO}.parquet.MapredParquetInputFormat",
        f"{_IO}.parquet.MapredParquetOutputFormat",
        f"{_IO}.parquet.serde.ParquetHiveSerDe",
    ),
    "text": ("org.apache.hadoop.mapred.TextInputFormat", TEXT_OUTPUT, f"{_SERDE}.lazy.LazySimpleSerDe"),
    "csv": ("org.apache.hadoop.mapred.TextInputFormat", TEXT_OUTPUT, f"{_SERDE}.OpenCSVSerde"),
    "json": ("org.apache.hadoop.mapred.TextInputFormat", TEXT_OUTPUT, "org.apache.hive.hcatalog.data.JsonSerDe"),
    "sequence": (
        "org.apache.hadoop.mapred.SequenceFileInputFormat",
        f"{_IO}.HiveSequenceFileOutputFormat",
        f"{_SERDE}.lazy.LazySimpleSerDe",
    ),
}
"""Input format, output format and SerDe by the name of a format."""

Columns = Sequence[tuple[str, str] | tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class HiveObjects:
    """Makes objects below a folder; ``client`` is a Thrift client."""

    client: Any
    folder: Path

    def database(self, name: str, **given: Any) -> Path:
        """Make a database and return its folder."""
        from hive_metastore import ttypes

        folder = self.folder / f"{name}.db"
        given = {"locationUri": folder.as_uri(), "parameters": {}, **given}
        self.client.create_database(ttypes.Database(name=name, **given))
        return folder

    def storage(self, location: str | None, columns: Columns, format: str = "orc", **given: Any) -> Any:
        """A storage descriptor."""
        from hive_metastore import ttypes

        serde = given.pop("serde", {"serialization.format": "1"})
        described = {
            "compressed": False,
            "numBuckets": -1,
            "bucketCols": [],
            "sortCols": [],
            "parameters": {},
            "skewedInfo": ttypes.SkewedInfo([], [], {}),
            "storedAsSubDirectories": False,
            **given,
        }
        input_format, output_format, library = FORMATS[format]
        return ttypes.StorageDescriptor(
            cols=_fields(columns),
            location=location,
            inputFormat=input_format,
            outputFormat=output_format,
            serdeInfo=ttypes.SerDeInfo(name=None, serializationLib=library, parameters=serde),
            **described,
        )

    def table(
        self,
        database: str,
        name: str,
        columns: Columns,
        *,
        keys: Columns = (),
        type: str = "EXTERNAL_TABLE",
        format: str = "orc",
        parameters: Mapping[str, str] | None = None,
        location: str | None = None,
        storage: Mapping[str, Any] | None = None,
        **given: Any,
    ) -> Path:
        """Make a table and return its folder."""
        from hive_metastore import ttypes

        folder = self.folder / f"{database}.db" / name
        own = {"EXTERNAL": "TRUE"} if type == "EXTERNAL_TABLE" else {}
        place = None if type == "VIRTUAL_VIEW" else location or folder.as_uri()
        self.client.create_table(
            ttypes.Table(
                tableName=name,
                dbName=database,
                owner=given.pop("owner", "ann"),
                sd=self.storage(place, columns, format, **(storage or {})),
                partitionKeys=_fields(keys),
                parameters={**own, **(parameters or {})},
                tableType=type,
                **given,
            )
        )
        return folder

    def partitions(
        self, database: str, table: str, values: Sequence[Sequence[str]], parameters: Mapping[str, str] | None = None
    ) -> None:
        """Add partitions as ALTER TABLE ADD PARTITION does, with the table's storage descriptor."""
        from hive_metastore import ttypes

        found = self.client.get_table(database, table)
        keys = [key.name for key in found.partitionKeys]
        new = []
        for each in values:
            storage = ttypes.StorageDescriptor(**vars(found.sd))
            storage.location = f"{found.sd.location}/{'/'.join(map('='.join, zip(keys, each, strict=True)))}"
            new.append(
                ttypes.Partition(
                    values=list(each), dbName=database, tableName=table, sd=storage, parameters=dict(parameters or {})
                )
            )
        self.client.add_partitions(new)

    def transactions(self, count: int) -> list[int]:
        """Open transactions and return their ids."""
        from hive_metastore import ttypes

        return list(self.client.open_txns(ttypes.OpenTxnRequest(count, "ann", "host")).txn_ids)

    def commit(self, txn_ids: Sequence[int]) -> None:
        """Commit transactions."""
        from hive_metastore import ttypes

        for txn_id in txn_ids:
            self.client.commit_txn(ttypes.CommitTxnRequest(txn_id))

    def abort(self, txn_id: int) -> None:
        """Abort a transaction."""
        from hive_metastore import ttypes

        self.client.abort_txn(ttypes.AbortTxnRequest(txn_id))


def _fields(columns: Columns) -> list[Any]:
    from hive_metastore import ttypes

    return [ttypes.FieldSchema(*column, *((None,) * (3 - len(column)))) for column in columns]
