from __future__ import annotations

import pytest

from airflow_hivex.core.commands.table_definitions import check_columns
from airflow_hivex.core.errors import InvalidObjectError, InvalidTypeError
from airflow_hivex.core.model.objects import Column


@pytest.mark.parametrize("type", ["struct<interval:int,void:string>", "map<string,struct<variant:date>>"])
def test_struct_fields_may_have_names_of_types(type: str) -> None:
    check_columns("db.t", [Column("s", type)])


@pytest.mark.parametrize("type", ["void", "variant", "interval day to second", "array<interval>", "struct<a:void>"])
def test_types_that_files_cannot_hold_are_refused(type: str) -> None:
    with pytest.raises(InvalidObjectError, match="which files cannot hold"):
        check_columns("db.t", [Column("s", type)])


def test_text_that_is_no_type_is_refused_with_its_position() -> None:
    with pytest.raises(InvalidTypeError, match="at position 7: there is no type whatever"):
        check_columns("db.t", [Column("s", "array<whatever>")])
