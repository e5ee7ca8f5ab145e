"""Directories of full ACID tables as Hive 2.3 itself writes them: by its own OrcRecordUpdater."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

_SERDE = "org.apache.hadoop.hive.serde2.objectinspector"
_IO = "org.apache.hadoop.hive.ql.io"


class HiveWriter:
    """Writes rows (id int, name string) to a table's or partition's folder, one bucket at a time."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        self._conf = getattr(jvm, "org.apache.hadoop.conf.Configuration")()
        primitives = getattr(jvm, f"{_SERDE}.primitive.PrimitiveObjectInspectorFactory")
        long, number = primitives.writableLongObjectInspector, primitives.writableIntObjectInspector
        # As Hive's RecordIdentifier.StructInfo, but of writables: py4j makes no java.lang.Long of small numbers.
        row_id = self._struct(["transactionId", "bucketId", "rowId"], [long, number, long])
        row = [row_id, primitives.javaIntObjectInspector, primitives.javaStringObjectInspector]
        self._inspector = self._struct(["row_id", "id", "name"], row)

    def insert(self, folder: Path, txn_id: int, rows: Sequence[tuple[int, str]], bucket: int = 0) -> None:
        """Write a file of a delta."""
        updater = self._updater(folder, txn_id, bucket)
        for row in rows:
            updater.insert(txn_id, self._listed([None, *row]))
        updater.close(False)

    def delete(self, folder: Path, txn_id: int, row_ids: Sequence[tuple[int, int, int]]) -> None:
        """Write a file of a delete delta; ``row_ids`` are transaction id, bucket and row id, all of one bucket."""
        updater = self._updater(folder, txn_id, row_ids[0][1])
        for written_by, bucket, row_id in row_ids:
            long = getattr(self._jvm, "org.apache.hadoop.io.LongWritable")
            number = getattr(self._jvm, "org.apache.hadoop.io.IntWritable")
            record = self._listed([long(written_by), number(bucket), long(row_id)])
            updater.delete(txn_id, self._listed([record, None, None]))
        updater.close(False)

    def _struct(self, names: Sequence[str], inspectors: Sequence[Any]) -> Any:
        factory = getattr(self._jvm, f"{_SERDE}.ObjectInspectorFactory")
        return factory.getStandardStructObjectInspector(self._listed(names), self._listed(inspectors))

    def _updater(self, folder: Path, txn_id: int, bucket: int) -> Any:
        options = getattr(self._jvm, f"{_IO}.AcidOutputFormat$Options")(self._conf)
        acid = getattr(self._jvm, f"{_IO}.AcidUtils$AcidOperationalProperties").getDefault()
        self._conf.setInt("hive.txn.operational.properties", acid.toInt())
        options = (
            options.inspector(self._inspector)
            .bucket(bucket)
            .minimumTransactionId(txn_id)
            .maximumTransactionId(txn_id)
            .statementId(0)
            .recordIdColumn(0)
            .finalDestination(None)
        )
        path = getattr(self._jvm, "org.apache.hadoop.fs.Path")(f"file://{folder}")
        return getattr(self._jvm, f"{_IO}.orc.OrcOutputFormat")().getRecordUpdater(path, options)

    def _listed(self, items: Sequence[object]) -> Any:
        listed = getattr(self._jvm, "java.util.ArrayList")()
        for item in items:
            listed.add(item)
        return listed
