"""``@task.hivex_sql``: a function that returns the SQL of a HivexQueryOperator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk.bases.decorator import DecoratedOperator, determine_kwargs, task_decorator_factory
from airflow.sdk.definitions._internal.types import SET_DURING_EXECUTION
from airflow.sdk.definitions.context import context_merge

from airflow_hivex.operators.query import HivexQueryOperator

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow.sdk import Context
    from airflow.sdk.bases.decorator import TaskDecorator


class _HivexSqlOperator(DecoratedOperator, HivexQueryOperator):
    """Run the statements that a function returns.

    :param python_callable: the function
    """

    template_fields: Sequence[str] = (*DecoratedOperator.template_fields, *HivexQueryOperator.template_fields)
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **DecoratedOperator.template_fields_renderers,
        **HivexQueryOperator.template_fields_renderers,
    }
    custom_operator_name = "@task.hivex_sql"
    overwrite_rtif_after_execution = True

    def __init__(self, *, python_callable: Callable[..., Any], **kwargs: Any) -> None:
        if "sql" in kwargs:
            raise TypeError("@task.hivex_sql takes no sql: the function returns it")
        if kwargs.pop("multiple_outputs", None):
            raise TypeError("@task.hivex_sql takes no multiple_outputs: its result is that of a query")
        super().__init__(python_callable=python_callable, multiple_outputs=False, sql=SET_DURING_EXECUTION, **kwargs)

    def execute(self, context: Context) -> Any:
        """Call the function, and run the statements that the function returns. The statements can be templates.

        :raises TypeError: the function has returned neither a text nor a list of texts
        """
        context_merge(context, self.op_kwargs)
        arguments = determine_kwargs(self.python_callable, self.op_args, context)
        sql = self.python_callable(*self.op_args, **arguments)
        texts = [sql] if isinstance(sql, str) else sql
        if (
            not isinstance(texts, list)
            or not texts
            or not all(isinstance(each, str) and each.strip() for each in texts)
        ):
            raise TypeError(
                f"The function of task {self.task_id} has returned {sql!r}; it must return a text of SQL, or a list of "
                "such texts."
            )
        self.sql = sql
        self.render_template_fields(context)
        return HivexQueryOperator.execute(self, context)

    @property
    def _scripts_of_function(self) -> list[str] | None:
        return [self.sql] if isinstance(self.sql, str) else list(self.sql)


def hivex_sql_task(python_callable: Callable[..., Any] | None = None, **kwargs: Any) -> TaskDecorator:
    """Return a task that calls the function, and runs the SQL that the function returns.

    If ``python_callable`` is None, return a decorator.

    :param python_callable: the function; None if the decorator has arguments
    :param kwargs: arguments of HivexQueryOperator, except ``sql``
    """
    return task_decorator_factory(python_callable=python_callable, decorated_operator_class=_HivexSqlOperator, **kwargs)
