"""What the dialect claims, for the suite of SQLAlchemy."""

from __future__ import annotations

from typing import Any

from sqlalchemy.testing import exclusions
from sqlalchemy.testing.requirements import SuiteRequirements

# fmt: off
CLAIMED = [
    "autocommit", "boolean_col_expressions", "check_constraint_reflection", "comment_reflection",
    "comment_reflection_full_unicode", "create_or_replace_view", "create_table_as", "create_temp_table_as",
    "cross_schema_fk_reflection", "ctes", "date_historic", "datetime_historic", "datetime_literals",
    "datetime_timezone", "datetime_timezone_historic", "delete_from", "except_", "fetch_rows_post_commit",
    "float_or_double_precision_behaves_generically", "foreign_key_constraint_name_reflection",
    "implicit_default_schema", "infinity_floats", "inline_check_constraint_reflection", "intersect",
    "isolation_level", "mod_operator_as_percent_sign", "nullsordering", "order_by_label_with_expression",
    "precision_numerics_enotation_small", "precision_numerics_many_significant_digits",
    "precision_numerics_retains_significant_digits", "reflect_table_options", "reflects_pk_names",
    "regexp_match", "regexp_replace", "schema_create_delete", "server_defaults", "skip_autocommit_rollback",
    "supports_bitwise_and", "supports_bitwise_not", "supports_bitwise_or", "supports_bitwise_shift",
    "supports_bitwise_xor", "supports_is_distinct_from", "table_ddl_if_exists", "table_value_constructor",
    "temp_table_names", "has_temp_table", "temporary_tables", "temporary_views", "timestamp_microseconds", "tuple_in",
    "unique_constraint_reflection",
    "views", "window_functions", "window_range", "window_range_numeric",
]
# fmt: on
"""What SQLAlchemy does not expect of each dialect, and this one has."""

NOT_CLAIMED = {
    "autoincrement_insert": "a table does not number its rows",
    "autoincrement_without_sequence": "a table does not number its rows",
    "deferrable_fks": "nothing enforces a foreign key",
    "denormalized_names": "names are kept in lower case",
    "duplicate_key_raises_integrity_error": "nothing enforces a primary key",
    "empty_inserts": "an INSERT has values",
    "foreign_key_constraint_option_reflection_ondelete": "nothing enforces a foreign key",
    "implements_get_lastrowid": "a table does not number its rows",
    "index_reflection": "tables have no indexes",
    "indexes_with_ascdesc": "tables have no indexes",
    "on_update_cascade": "nothing enforces a foreign key",
    "recursive_fk_cascade": "nothing enforces a foreign key",
    "reflect_indexes_with_ascdesc": "tables have no indexes",
    "symbol_names_w_double_quote": "names have letters, digits and underscores",
    "temp_table_reflect_indexes": "tables have no indexes",
    "unusual_column_name_characters": "names of columns have no blank, and none of , ; { } ( ) = `",
}
"""What SQLAlchemy expects of a dialect, and this one lacks, with the reason."""

LEFT_OUT = {
    r"BizarroCharacterTest.*\[(?!plain-plainname)": "names have letters, digits and underscores",
    r"QuotedNameArgumentTest": "names have letters, digits and underscores",
    r"::test_get_\w+_quoted_name\[": "names are kept in lower case",
    r"::test_check_constraint_(inline|standalone)\[.*-My": "names are kept in lower case",
    r"NameDenormalizeTest": "names are kept in lower case",
    r"::test_no_results_for_non_returning_insert\[": "a table does not number its rows",
    r"::test_insert_from_select_autoinc$": "a table does not number its rows",
    r"::test_long_convention_name\[ix": "tables have no indexes",
    r"::test_dialect_user_setting_is_restored": "there is one isolation level besides AUTOCOMMIT",
}
"""Tests of the suite that no requirement leaves out, by patterns of their names, with the reason."""


class Requirements(SuiteRequirements):
    """The claims as the suite asks for them."""

    def get_isolation_levels(self, config: Any) -> dict[str, Any]:
        return {"default": "SNAPSHOT", "supported": ["AUTOCOMMIT", "SNAPSHOT"]}


for _name in CLAIMED:
    setattr(Requirements, _name, property(lambda self: exclusions.open()))
for _name, _reason in NOT_CLAIMED.items():
    setattr(Requirements, _name, property(lambda self, reason=_reason: exclusions.skip_if(lambda: True, reason)))
