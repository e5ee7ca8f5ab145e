"""Days of files of ORC."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa

from airflow_hivex.core.arrow.files import gregorian, with_gregorian_days


def test_days_of_the_julian_calendar_keep_their_names() -> None:
    epoch = dt.date(1970, 1, 1)
    # 1582-10-04 of the Julian calendar was the day before 1582-10-15; 0001-01-01 was two days before ours.
    assert gregorian(-141_428) == (dt.date(1582, 10, 4) - epoch).days
    assert gregorian(-719_164) == (dt.date(1, 1, 1) - epoch).days
    assert gregorian([-141_427, 0]).tolist() == [-141_427, 0]


def test_days_at_any_depth_are_numbered_again() -> None:
    old, new = dt.date(1, 1, 3), dt.date(1, 1, 1)
    # The number of 0001-01-01 in the Julian calendar has the name of the day two days before in ours.
    julian = pa.scalar((new - dt.date(1970, 1, 1)).days - 2, pa.int32()).cast(pa.date32())
    days = pa.concat_arrays([pa.repeat(julian, 1), pa.array([None, old], pa.date32())])
    nested = pa.StructArray.from_arrays([pa.ListArray.from_arrays([0, 3], days)], ["days"])
    found = with_gregorian_days(nested).to_pylist()[0]["days"]
    assert found == [new, None, dt.date(1, 1, 5)]
