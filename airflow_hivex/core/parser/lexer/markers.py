"""The ``:name`` markers of a statement, and their values.

Values never become a part of the text, because Spark binds them as named arguments. This module checks that no value is
missing. It gives the values to the readers of filters and of constant rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal

from airflow_hivex.core.errors import InvalidParametersError
from airflow_hivex.core.model.column_types import MAX_PRECISION
from airflow_hivex.core.model.texts import check_encodable, check_text
from airflow_hivex.core.parser.statements import Literal


def values_of(parameters: Mapping[str, object] | None) -> dict[str, object]:
    """Return a dict from the names of markers to their values. The dict is empty if ``parameters`` is None.

    Raises:
        InvalidParametersError: ``parameters`` is not a mapping.
    """
    if parameters is not None and not isinstance(parameters, Mapping):
        raise InvalidParametersError(
            f"The parameters are a {type(parameters).__name__}; give a mapping from names of :name markers to values."
        )
    return dict(parameters or {})


class Markers:
    """The markers of a statement, and the parameters that are their values.

    ``stand_in`` is a constant that serves as the value of each marker without a value, if the text is read but not run.
    """

    def __init__(self, parameters: Mapping[str, object] | None, *, stand_in: Literal | None = None) -> None:
        values = values_of(parameters)
        self._literals = {name: parameter_literal(name, value) for name, value in values.items()}
        self._given = parameters is not None
        self._stand_in = stand_in
        self._used: dict[str, None] = {}

    def literal(self, name: str) -> Literal | None:
        """Return the value of a marker, or None if it has no value; :meth:`check` reports such a marker."""
        self._used[name] = None
        return self._literals.get(name, self._stand_in)

    def is_stand_in(self, literal: Literal | None) -> bool:
        """Return whether a value is the ``stand_in``, the placeholder for a value that is not known yet."""
        return literal is not None and literal is self._stand_in

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the statement's markers."""
        return tuple(self._used)

    def use(self, names: Iterable[str]) -> None:
        """Record the names of markers that the statement has."""
        self._used.update(dict.fromkeys(names))

    def check(self) -> None:
        """Ensure, after the statement is read, that each marker has a value and each value has a marker.

        Raises:
            InvalidParametersError: a marker has no value, or a value has no marker.
        """
        missing = [f":{name}" for name in self._used if name not in self._literals]
        unused = [name for name in self._literals if name not in self._used]
        problems = []
        if missing and not self._given:
            problems.append(f"the statement has the markers {', '.join(missing)}, but no parameters were given")
        elif missing:
            problems.append(f"there is no value for {', '.join(missing)}")
        if unused:
            problems.append(f"no marker uses {', '.join(unused)}")
        if problems:
            raise InvalidParametersError(f"Parameters do not fit the statement: {'; '.join(problems)}.")


def parameter_literal(name: str, value: object) -> Literal:
    """Return a parameter's value with its Spark type.

    Raises:
        InvalidParametersError: the name is not a text, or Spark has no literal for the value's type or size.
    """
    if not isinstance(name, str):
        raise InvalidParametersError(f"The parameter name {name!r} is not a text.")
    check_text("The name of a parameter", name)
    match value:
        case None:
            return Literal(None, "void")
        case bool():
            return Literal(value, "boolean")
        case int():
            return Literal(value, _integer_type(name, value))
        case float():
            return Literal(value, "double")
        case Decimal():
            return Literal(value, _decimal_parameter_type(name, value))
        case str():
            return Literal(check_encodable(f"Parameter {name}", value), "string")
        case bytes() | bytearray():
            return Literal(bytes(value), "binary")
        case datetime():
            _check_instant(name, value)
            return Literal(value, "timestamp")
        case date():
            return Literal(value, "date")
    raise InvalidParametersError(
        f"Parameter {name} is a {type(value).__name__}; give None, a bool, int, float, Decimal, str, bytes, "
        "date or datetime."
    )


def _check_instant(name: str, value: datetime) -> None:
    try:
        if value.tzinfo is not None:
            value.astimezone(UTC)
    except OverflowError:
        raise InvalidParametersError(f"Parameter {name} = {value} is in no year from 1 to 9999 of UTC.") from None


def _integer_type(name: str, value: int) -> str:
    if -(2**31) <= value < 2**31:
        return "int"
    if -(2**63) <= value < 2**63:
        return "bigint"
    raise InvalidParametersError(f"Parameter {name} = {value} does not fit a bigint; give a Decimal.")


def _decimal_parameter_type(name: str, value: Decimal) -> str:
    decimal = decimal_type(value)
    if decimal is None:
        raise InvalidParametersError(f"Parameter {name} = {value} does not fit a decimal of {MAX_PRECISION} digits.")
    return decimal


def decimal_type(value: Decimal) -> str | None:
    """Return Spark's type of a decimal value, such as ``decimal(10,2)``, or None for infinity or too many digits."""
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return None
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale)
    return f"decimal({precision},{scale})" if precision <= MAX_PRECISION else None
