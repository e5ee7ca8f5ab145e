"""A MERGE of a DataFrame into a table, built clause by clause as in Delta Lake, and run as a MERGE statement."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, TypeAlias

from airflow_hivex.core.errors import InvalidOperationError, InvalidParametersError
from airflow_hivex.core.execution.context import Result
from airflow_hivex.core.parser.grammar.views import quoted
from airflow_hivex.core.parser.lexer.markers import parameter_literal
from airflow_hivex.core.parser.lexer.tokens import syntax_error, tokenize

if TYPE_CHECKING:
    from airflow_hivex.core.runners.given import Frame

Values: TypeAlias = Mapping[str, object]
"""A dict from column to value. A text is an expression in SQL; a value of any other type is a constant."""
Run: TypeAlias = Callable[[str, Mapping[str, object], "Frame"], Result]
"""A function that runs a statement with parameters. The statement reads the DataFrame as ``{rows}``."""

_MARKER = "merge_value_"
_CONSTANTS = ("TRUE", "FALSE", "NULL")


@dataclass(frozen=True, slots=True)
class Merge:
    """A MERGE that :meth:`execute` runs. Each other method returns a new MERGE with one more clause.

    The kinds of clauses are matched, not matched, and not matched by source. Each row is changed by the first clause of
    its kind whose condition is true. Conditions and expressions are Spark SQL. They use the aliases of the source and
    the target, by default ``source`` and ``target``.
    """

    run: Run = field(repr=False)
    rows: Frame = field(repr=False)
    into: str
    on: str
    source_alias: str
    target_alias: str
    parameters: Mapping[str, object] = field(default_factory=dict, repr=False)
    clauses: tuple[str, ...] = ()
    evolves: bool = False

    def with_schema_evolution(self) -> Merge:
        """Return the MERGE with WITH SCHEMA EVOLUTION: columns that only the source has are added to the target."""
        return replace(self, evolves=True)

    def when_matched_update(self, set: Values, condition: str | None = None) -> Merge:
        """Return the MERGE with WHEN MATCHED THEN UPDATE SET.

        Raises:
            StatementSyntaxError: a condition or an expression is not valid.
            InvalidParametersError: a value is not a text and cannot be a parameter.
        """
        return self._update("MATCHED", set, condition)

    def when_matched_update_all(self, condition: str | None = None) -> Merge:
        """Return the MERGE with WHEN MATCHED THEN UPDATE SET *, which assigns columns of the source by name.

        Raises:
            StatementSyntaxError: the condition is not valid.
        """
        return self._with("MATCHED", condition, "UPDATE SET *")

    def when_matched_delete(self, condition: str | None = None) -> Merge:
        """Return the MERGE with WHEN MATCHED THEN DELETE.

        Raises:
            StatementSyntaxError: the condition is not valid.
        """
        return self._with("MATCHED", condition, "DELETE")

    def when_not_matched_insert(self, values: Values, condition: str | None = None) -> Merge:
        """Return the MERGE with WHEN NOT MATCHED THEN INSERT. Other columns get their default values.

        Raises:
            StatementSyntaxError: a condition or an expression is not valid.
            InvalidParametersError: a value is not a text and cannot be a parameter.
        """
        texts, parameters = self._texts(values)
        action = f"INSERT ({', '.join(map(quoted, texts))}) VALUES ({', '.join(texts.values())})"  # noqa: S608 - ours
        return self._with("NOT MATCHED", condition, action, parameters)

    def when_not_matched_insert_all(self, condition: str | None = None) -> Merge:
        """Return the MERGE with WHEN NOT MATCHED THEN INSERT *, which assigns columns of the source by name.

        Raises:
            StatementSyntaxError: the condition is not valid.
        """
        return self._with("NOT MATCHED", condition, "INSERT *")

    def when_not_matched_by_source_update(self, set: Values, condition: str | None = None) -> Merge:
        """Return the MERGE with WHEN NOT MATCHED BY SOURCE THEN UPDATE SET.

        Raises:
            StatementSyntaxError: a condition or an expression is not valid.
            InvalidParametersError: a value is not a text and cannot be a parameter.
        """
        return self._update("NOT MATCHED BY SOURCE", set, condition)

    def when_not_matched_by_source_delete(self, condition: str | None = None) -> Merge:
        """Return the MERGE with WHEN NOT MATCHED BY SOURCE THEN DELETE.

        Raises:
            StatementSyntaxError: the condition is not valid.
        """
        return self._with("NOT MATCHED BY SOURCE", condition, "DELETE")

    def execute(self) -> Result:
        """Run the MERGE and return its result, with the numbers of rows written and deleted.

        If the session has an open transaction, the MERGE is a part of it. Otherwise it is a transaction of its own.

        Spark computes the rows of the DataFrame only once.

        Raises:
            MergeCardinalityError: several rows of the DataFrame match one row of the table.
            NoSuchColumnError, AnalysisError: a column does not exist.
            TypeMismatchError: a column needs an explicit CAST.
            HivexError: any other error of a MERGE statement.
        """
        if not self.clauses:
            raise InvalidOperationError("MERGE", self.into, "it has no clause; call when_matched_update_all or others")
        return self.run(self.text, self.parameters, self.rows)

    @property
    def text(self) -> str:
        """Return the text of the MERGE statement."""
        evolution = " WITH SCHEMA EVOLUTION" if self.evolves else ""
        target = f"{self.into} AS {quoted(self.target_alias)}"
        head = f"MERGE{evolution} INTO {target} USING {{rows}} AS {quoted(self.source_alias)}"
        return "\n".join((f"{head} ON {self.on}", *self.clauses))

    def _update(self, kind: str, values: Values, condition: str | None) -> Merge:
        texts, parameters = self._texts(values)
        assigned = ", ".join(f"{quoted(name)} = {text}" for name, text in texts.items())
        return self._with(kind, condition, f"UPDATE SET {assigned}", parameters)

    def _with(
        self, kind: str, condition: str | None, action: str, parameters: Mapping[str, object] | None = None
    ) -> Merge:
        holds = "" if condition is None else f" AND {expression('condition', condition)}"
        clauses = (*self.clauses, f"WHEN {kind}{holds} THEN {action}")
        return replace(self, clauses=clauses, parameters=self.parameters if parameters is None else parameters)

    def _texts(self, values: Values) -> tuple[dict[str, str], Mapping[str, object]]:
        """Return a pair: a dict from column to SQL, and the parameters. Values that are not texts become parameters."""
        if not values:
            raise InvalidParametersError(
                "A clause of a MERGE assigns no column; give a mapping from columns to values."
            )
        parameters = dict(self.parameters)
        texts: dict[str, str] = {}
        for name, value in values.items():
            if isinstance(value, str):
                texts[name] = expression(f"value of {name}", value)
            else:
                _check_value(name, value)
                names = (f"{_MARKER}{number}" for number in count())
                marker = next(name for name in names if name not in parameters)
                parameters[marker] = value
                texts[name] = f":{marker}"
        return texts, parameters


def condition_of(on: str | Sequence[str], source_alias: str, target_alias: str) -> str:
    """Return the condition of a MERGE in SQL.

    Args:
        on: a condition in SQL, or a list of columns that are equal in the source and the target.
        source_alias: the alias of the source.
        target_alias: the alias of the target.

    Raises:
        StatementSyntaxError: the text is not a condition.
        InvalidParametersError: ``on`` is an empty list, the name of a column without a list, or of another type.
    """
    if isinstance(on, str):
        name = on.strip()
        if name.isidentifier() and name.upper() not in _CONSTANTS:
            raise InvalidParametersError(
                f"on is the name {name} alone; give a list of names, [{name!r}], or a condition in SQL, such as "
                f"{target_alias}.{name} = {source_alias}.{name}."
            )
        return expression("condition", on)
    if not isinstance(on, Sequence):
        raise InvalidParametersError(
            f"on is a {type(on).__name__}; give a condition in SQL as a text, or a list of the columns that are equal."
        )
    if not on:
        raise InvalidParametersError("A MERGE names no column that its rows have in common; name them in on.")
    target, source = quoted(target_alias), quoted(source_alias)
    return " AND ".join(f"{target}.{quoted(name)} = {source}.{quoted(name)}" for name in on)


def _check_value(column: str, value: object) -> None:
    """Refuse a value that is neither a text nor a constant.

    Raises:
        InvalidParametersError: the value has no literal in SQL, such as a Column of PySpark.
    """
    try:
        parameter_literal(column, value)
    except InvalidParametersError as error:
        raise InvalidParametersError(
            f"The value of {column} in a MERGE is a {type(value).__name__}; give an expression in SQL as a text, such "
            f"as 'source.{column}', or a constant."
        ) from error


def expression(what: str, text: str) -> str:
    """Return an expression of a clause in parentheses, or DEFAULT unchanged.

    The parentheses ensure that the text is one expression without a further clause.

    Args:
        what: the role of the expression, for errors.
        text: the expression in SQL.

    Raises:
        StatementSyntaxError: the expression is empty, has a semicolon, or its parentheses are not closed.
        InvalidParametersError: ``text`` is not a text.
    """
    if not isinstance(text, str):
        raise InvalidParametersError(f"The {what} of a MERGE is a {type(text).__name__}; give a text in SQL.")
    tokens = tokenize(text)
    if [token.word for token in tokens] == ["DEFAULT"]:
        return "DEFAULT"
    depth = 0
    for token in tokens:
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth < 0 or token.is_symbol(";"):
            raise syntax_error(text, token.start, f"{token.text} has no place in the {what}")
    if depth > 0 or not tokens:
        raise syntax_error(text, len(text), f"the {what} is {'empty' if not tokens else 'not closed'}")
    # The text may end with a comment.
    return f"({text}\n)"
