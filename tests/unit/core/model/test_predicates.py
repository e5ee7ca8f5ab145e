# ruff: noqa: DTZ001 - values of Spark's timestamps have no zone
from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_hivex.core.model.column_types import parse_type
from airflow_hivex.core.model.expressions import Call, Constant
from airflow_hivex.core.model.predicates import (
    And,
    ColumnReference,
    Comparison,
    In,
    IsNull,
    Like,
    Not,
    Or,
    PaddedText,
    Predicate,
    Truth,
    Unknown,
    Value,
    columns_in,
    evaluate,
    fixed_beginning,
    known_by,
    restricts,
    typed,
)

YES, NO, NULL, MAYBE = Truth.YES, Truth.NO, Truth.NULL, Truth.MAYBE
DS, MONTH = ColumnReference("ds"), ColumnReference("Month", "f")


def compare(left: Value, operator: str, right: Value) -> Truth:
    return evaluate(Comparison(DS, operator, right), {"ds": left})


@pytest.mark.parametrize(
    ("left", "operator", "right", "answer"),
    [
        ("a", "=", "a", YES),
        ("a", "<>", "a", NO),
        ("B", "<", "a", YES),
        (7, ">=", 7, YES),
        (7, "<=", 6, NO),
        (7, "=", Decimal("7.0"), YES),
        (7, "<", Decimal("7.5"), YES),
        (date(2013, 1, 2), ">", date(2013, 1, 1), YES),
        (True, "=", True, YES),
        (None, "=", "a", NULL),
        ("a", "<>", None, NULL),
        (None, "<=>", None, YES),
        (None, "<=>", "a", NO),
        ("a", "<=>", "a", YES),
        (datetime(2013, 1, 1), "<", datetime(2013, 1, 3), YES),
        (datetime(2013, 1, 1), "=", datetime(2013, 1, 1), YES),
    ],
)
def test_comparison(left: Value, operator: str, right: Value, answer: Truth) -> None:
    assert compare(left, operator, right) is answer


@pytest.mark.parametrize(
    ("left", "right", "smaller"),
    [
        ("7", 8, YES),
        (7, "8", YES),
        (9, "8", NO),
        ("07", 8, YES),
        (7, "007", NO),
        ("-1", 0, YES),
        ("0", -1, NO),
        (date(2013, 1, 1), "2013-01-02", YES),
        ("2013-01-02", date(2013, 1, 1), NO),
    ],
)
def test_text_is_compared_as_what_it_is_written_like(left: Value, right: Value, smaller: Truth) -> None:
    assert compare(left, "<", right) is smaller


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("a", 1),
        (" 7", 7),
        ("1" * 19, 7),
        ("7.0", 7),
        (1.5, 1.5),
        (float("nan"), float("nan")),
        (1, 1.0),
        (True, 1),
        (True, "true"),
        (date(2013, 1, 1), datetime(2013, 1, 1)),
        (date(2013, 1, 1), "2013-1-1"),
        (date(2013, 1, 1), "2013-02-30"),
        (datetime(2013, 1, 1), "2013-01-01"),
        (datetime(2013, 3, 31, 2, 30), datetime(2013, 3, 31, 3, 10)),
        (datetime(2013, 1, 1), datetime(2013, 1, 5, tzinfo=UTC)),
        (PaddedText("ab"), "ab "),
        (PaddedText("ab"), PaddedText("ab")),
        ("7", Decimal("7")),
        (7, Decimal("7." + "0" * 20)),
    ],
)
@pytest.mark.parametrize("operator", ["=", "<>", "<", ">=", "<=>"])
def test_what_depends_on_casts_is_not_decided(left: Value, right: Value, operator: str) -> None:
    assert compare(left, operator, right) is MAYBE
    assert compare(right, operator, left) is MAYBE


@pytest.mark.parametrize(
    ("value", "candidates", "answer"),
    [
        ("a", ("a", "b"), YES),
        ("c", ("a", "b"), NO),
        ("c", ("a", None), NULL),
        ("a", ("a", None), YES),
        (None, ("a",), NULL),
        (1, (Decimal("1.0"),), YES),
        (1, (True,), MAYBE),
        (True, (1,), MAYBE),
        (1, (2, 1.0), MAYBE),
        (1, (1, 1.0), YES),
        ("7", (7,), YES),
        ("07", (7,), MAYBE),
        (7, ("07",), MAYBE),
        ("a", (), NO),
        (3, (1, 2, 3), YES),
        (4, (1, 2, 3), NO),
        (4, (1, None), NULL),
    ],
)
def test_in(value: Value, candidates: tuple[Value, ...], answer: Truth) -> None:
    assert evaluate(In(DS, candidates), {"ds": value}) is answer


@pytest.mark.timeout(30)
def test_long_list_is_not_searched_for_every_partition() -> None:
    months = In(DS, tuple(range(100_000)))
    assert all(evaluate(months, {"ds": month}) is YES for month in range(100_000))


@pytest.mark.parametrize(
    ("value", "pattern", "answer"),
    [
        ("2013-01", "2013%", YES),
        ("2013-01", "2013", NO),
        ("a\nb", "a_b", YES),
        ("a.b", "a.b", YES),
        ("axb", "a.b", NO),
        ("50%", "50\\%", YES),
        ("500", "50\\%", NO),
        ("a_b", "a\\_b", YES),
        ("a\\b", "a\\\\b", YES),
        ("", "%", YES),
        ("A", "a", NO),
        (None, "%", NULL),
        (7, "7", MAYBE),
        ("a", "\\a", MAYBE),
        ("a", "a\\", MAYBE),
        (PaddedText("ab"), "ab%", MAYBE),
    ],
)
def test_like(value: Value, pattern: str, answer: Truth) -> None:
    assert evaluate(Like(DS, pattern), {"ds": value}) is answer


def test_is_null() -> None:
    assert evaluate(IsNull(DS), {"ds": None}) is YES
    assert evaluate(IsNull(DS), {"ds": "a"}) is NO
    assert evaluate(Not(IsNull(DS)), {"ds": None}) is NO


def test_a_column_that_is_not_known_is_maybe() -> None:
    for predicate in (Comparison(MONTH, "=", 1), In(MONTH, (1,)), Like(MONTH, "a"), IsNull(MONTH), Unknown()):
        assert evaluate(predicate, {"ds": "a"}) is MAYBE


def test_columns_are_found_in_any_case() -> None:
    assert evaluate(Comparison(MONTH, "=", 1), {"month": 1}) is YES


STANDS_FOR: dict[Truth, Predicate] = {
    YES: Comparison(DS, "=", "a"),
    NO: Comparison(DS, "=", "b"),
    NULL: Comparison(DS, "=", None),
    MAYBE: Unknown(),
}
RANK_OF_AND = [NO, MAYBE, NULL, YES]


@given(st.lists(st.sampled_from(list(Truth))))
def test_and_or_and_not_are_those_of_three_valued_logic(truths: list[Truth]) -> None:
    operands = tuple(STANDS_FOR[truth] for truth in truths)
    conjunction = next((truth for truth in RANK_OF_AND if truth in truths), YES)
    negated = {YES: NO, NO: YES, NULL: NULL, MAYBE: MAYBE}
    assert evaluate(And(operands), {"ds": "a"}) is conjunction
    assert evaluate(Or(tuple(Not(operand) for operand in operands)), {"ds": "a"}) is negated[conjunction]
    assert evaluate(Not(And(operands)), {"ds": "a"}) is negated[conjunction]


def test_columns_in_a_predicate() -> None:
    predicate = And((Comparison(DS, "=", 1), Or((Not(IsNull(MONTH)), In(DS, (1,)), Like(DS, "a")))))
    assert columns_in(predicate) == {DS, MONTH}
    assert columns_in(And((predicate, Unknown()))) == {DS, MONTH}
    assert columns_in(Comparison(Call("concat", (DS, Constant("-", "string"), MONTH)), "=", "a")) == {DS, MONTH}
    assert columns_in(And(())) == frozenset()


def test_what_reads_other_columns_is_unknown() -> None:
    other = Comparison(MONTH, ">", 3)
    predicate = Or((And((Comparison(DS, "=", "a"), other)), And((Comparison(DS, "=", "b"), Not(other)))))
    known = known_by(predicate, {"ds"})
    assert known == Or((And((Comparison(DS, "=", "a"), Unknown())), And((Comparison(DS, "=", "b"), Not(Unknown())))))
    assert restricts(known)
    assert [evaluate(known, {"ds": ds}) for ds in "abc"] == [MAYBE, MAYBE, NO]
    assert not restricts(known_by(Or((Comparison(DS, "=", "a"), other)), {"ds"}))
    assert known_by(Comparison(Call("concat", (DS, MONTH)), "=", "a"), {"ds"}) == Unknown()


def test_function_of_a_column_is_computed_by_its_type() -> None:
    first_of_2013 = Comparison(Call("year", (DS,)), "=", 2013)
    assert evaluate(first_of_2013, {"ds": date(2013, 1, 1)}, {"ds": parse_type("date")}) is YES
    assert evaluate(first_of_2013, {"ds": "2012-01-01"}, {"ds": parse_type("varchar(10)")}) is NO
    assert evaluate(first_of_2013, {"ds": None}, {"ds": parse_type("date")}) is NULL
    assert evaluate(first_of_2013, {"ds": "20130101"}, {"ds": parse_type("string")}) is MAYBE
    assert evaluate(first_of_2013, {"ds": date(2013, 1, 1)}) is MAYBE
    assert evaluate(first_of_2013, {"ds": PaddedText("2013-01-01")}, {"ds": parse_type("char(10)")}) is MAYBE
    next_hour = Comparison(Call("+", (DS, DS)), "=", 200)
    assert evaluate(next_hour, {"ds": 100}, {"ds": parse_type("int")}) is YES
    assert evaluate(next_hour, {"ds": 100}, {"ds": parse_type("tinyint")}) is MAYBE


@pytest.mark.parametrize(
    ("pattern", "beginning"),
    [("2013%", "2013"), ("a\\_b_", "a_b"), ("%a", ""), ("", ""), ("abc", "abc"), ("a\\b%", ""), ("a\\\\%", "a\\")],
)
def test_fixed_beginning_of_a_pattern(pattern: str, beginning: str) -> None:
    assert fixed_beginning(pattern) == beginning


@pytest.mark.parametrize(
    ("text", "type", "value"),
    [
        (None, "int", None),
        ("07", "string", "07"),
        ("ab", "varchar(10)", "ab"),
        ("07", "int", 7),
        ("-128", "tinyint", -128),
        ("9223372036854775807", "BIGINT", 2**63 - 1),
        ("1.5", "decimal(10,2)", Decimal("1.50")),
        ("01.500", "decimal(10, 1)", Decimal("1.5")),
        ("-0.5", "decimal(3,2)", Decimal("-0.50")),
        ("-0", "decimal", Decimal("0")),
        ("1e3", "double", 1000.0),
        ("TRUE", "boolean", True),
        ("2013-01-31", "date", date(2013, 1, 31)),
        ("2013-01-31 12:30:00.5", "timestamp", datetime(2013, 1, 31, 12, 30, 0, 500_000)),
        ("2013-01-31", "timestamp_ntz", datetime(2013, 1, 31)),
    ],
)
def test_typed(text: str | None, type: str, value: Value) -> None:
    found = typed(text, parse_type(type))
    assert found == value
    assert str(found) == str(value)


def test_char_is_text_that_is_not_compared() -> None:
    assert type(typed("ab", parse_type("char(5)"))) is PaddedText
    assert str(typed("ab", parse_type("char(5)"))) == "ab"


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("", "int"),
        ("x", "int"),
        ("1_0", "int"),
        (" 1", "int"),
        ("٣", "int"),
        ("1.0", "int"),
        ("128", "tinyint"),
        ("9" * 50, "bigint"),
        ("x", "decimal(10,2)"),
        ("NaN", "decimal(10,2)"),
        (".", "decimal(10,2)"),
        ("", "decimal(10,2)"),
        ("1.005", "decimal(10,2)"),
        ("1000", "decimal(5,2)"),
        ("1.5", "decimal"),
        ("1_0", "double"),
        ("x", "float"),
        ("yes", "boolean"),
        ("20130131", "date"),
        ("2013-W01-1", "date"),
        ("2013-02-30", "date"),
        ("2013-01-31T12:30", "timestamp"),
        ("2013-01-31 12:30:00+01:00", "timestamp"),
        ("x", "binary"),
        ("x", "array<int>"),
    ],
)
def test_text_that_does_not_fit_is_refused(text: str, type: str) -> None:
    with pytest.raises(ValueError, match=r"is not|has more digits|cannot be|could not convert|out of range|must be in"):
        typed(text, parse_type(type))
