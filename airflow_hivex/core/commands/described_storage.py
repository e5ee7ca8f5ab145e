"""Storage descriptors as DESCRIBE and SHOW CREATE TABLE show them."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_hivex.core.model.objects import Skew, StorageDescriptor
from airflow_hivex.core.model.secrets import hide_in_properties, hide_in_uri
from airflow_hivex.core.model.texts import quoted_text


def storage_facts(storage: StorageDescriptor) -> dict[str, str]:
    """Return the facts of a storage descriptor besides format and options, by the names of Spark and of Hive."""
    facts = {
        "Serde Library": storage.serde.library,
        "InputFormat": storage.input_format,
        "OutputFormat": storage.output_format,
        "Storage Desc Params": f"[{properties_text(hide_in_properties(storage.parameters))}]"
        if storage.parameters
        else None,
    }
    if storage.num_buckets > 0:
        facts["Num Buckets"] = str(storage.num_buckets)
        facts["Bucket Columns"] = ", ".join(storage.bucket_columns)
    if storage.sort_columns:
        facts["Sort Columns"] = ", ".join(
            f"{column.name} {'ASC' if column.ascending else 'DESC'}" for column in storage.sort_columns
        )
    if storage.compressed:
        facts["Compressed"] = "Yes"
    if storage.skew is not None:
        facts["Skewed Columns"] = ", ".join(storage.skew.columns)
        facts["Skewed Values"] = ", ".join(f"({', '.join(values)})" for values in storage.skew.values)
        if storage.skew.locations:
            facts["Skewed Value to Path"] = ", ".join(
                f"({', '.join(values)}) = {hide_in_uri(path)}" for values, path in storage.skew.locations.items()
            )
    if storage.stored_as_sub_directories:
        facts["Stored As SubDirectories"] = "Yes"
    return {fact: value for fact, value in facts.items() if value is not None}


def skewed_by(skew: Skew, *, in_directories: bool) -> str:
    """Return Hive's clause SKEWED BY."""
    columns = ", ".join(f"`{name}`" for name in skew.columns)
    values = ", ".join(f"({', '.join(map(quoted_text, each))})" for each in skew.values)
    return f"SKEWED BY ({columns}) ON ({values}){' STORED AS DIRECTORIES' if in_directories else ''}"


def properties_text(properties: Mapping[str, str]) -> str:
    """Return properties as SQL lists them, without the parentheses around."""
    return ", ".join(f"{quoted_text(key)} = {quoted_text(value)}" for key, value in sorted(properties.items()))
