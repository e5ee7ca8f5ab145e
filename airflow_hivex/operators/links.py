"""Operators that create, change and drop links to tables of other namespaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from airflow_hivex.hooks.tasks import NamedInMap, failing_for_good
from airflow_hivex.hooks.warehouse import WarehouseHook
from airflow_hivex.operators.asset_events import WritingOperator, declare_tables, send_event

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context

    from airflow_hivex.core.namespaces.links import Links


class _Change(NamedTuple):
    """A change of a link. ``result`` is the result of the task.

    ``shown`` has the partitions that the event of the link's asset names. None means that no event is sent.
    """

    result: dict[str, Any]
    shown: Sequence[str] | None = None
    is_dropped: bool = False


class _LinkOperator(NamedInMap, WritingOperator):
    """The base of an operator that changes one link. A retry is harmless."""

    ui_color = "#fdee21"

    def __init__(
        self,
        *,
        link: str,
        namespace: str | None = None,
        hivex_conn_id: str = WarehouseHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.link = link
        self.namespace = namespace
        self.hivex_conn_id = hivex_conn_id

    @property
    def map_name(self) -> str:
        """Return the full name of the link. Airflow's web interface shows it as the name of a mapped task."""
        return self.link

    def execute(self, context: Context) -> dict[str, Any]:
        """Change the link, and return the result.

        :raises AirflowFailException: the link or its table does not allow the change, and a retry would fail again
        :raises HivexError: a retry can succeed
        """
        with failing_for_good():
            hook = WarehouseHook(self.hivex_conn_id)
            namespace = self.namespace or hook.get_configuration().database
            links = hook.get_metastore().links
            # If the try before was lost after the change, its event was lost, too.
            change = self._change(links, namespace, is_retry=context["ti"].try_number > 1)
            if not change.is_dropped:
                self._declare(context, links, namespace, change.shown)
        return {"namespace": namespace, "link": self.link, **change.result}

    def _change(self, links: Links, namespace: str, *, is_retry: bool) -> _Change:
        """Change the link and return the change. Subclasses define this method."""
        raise NotImplementedError

    def _declare(self, context: Context, links: Links, namespace: str, shown: Sequence[str] | None) -> None:
        """Declare the source as an inlet.

        If the link shows additional rows, declare the link as an outlet with an event.
        """
        from airflow_hivex.assets.hivex import table_uri
        from airflow_hivex.core.model.links import LinkName

        source = ".".join(links.get(namespace, self.link).source)
        name = LinkName.of(namespace, self.link)
        declare_tables(self, self.hivex_conn_id, [source])
        if shown is not None:
            uri = table_uri(self.hivex_conn_id, name.database, name.in_database)
            send_event(self, context, uri, {"source": source}, shown)


class HivexCreateLinkOperator(_LinkOperator):
    """Create a link if it does not exist. An existing link keeps its type, properties and partitions.

    The operator returns ``{"namespace", "link", "source", "is_created"}``.

    :param link: ``table@namespace`` (templated)
    :param namespace: the namespace that gets the link; by default the database of the connection (templated)
    :param static: whether the link shows only partitions that ``ALTER LINK`` adds, and not each new one of its source
    :param properties: properties of the link, such as ``{"RETENTION": "90"}`` (templated)
    :param hivex_conn_id: the connection of type ``hivex`` (templated)
    :param asset_events: whether to send an event for the asset of each changed table or link
    """

    template_fields: Sequence[str] = ("link", "namespace", "properties", "hivex_conn_id")
    template_fields_renderers: ClassVar[dict[str, str]] = {"properties": "json"}

    def __init__(self, *, static: bool = False, properties: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.static = static
        self.properties = properties

    def _change(self, links: Links, namespace: str, *, is_retry: bool) -> _Change:
        from airflow_hivex.core.errors import AlreadyExistsError
        from airflow_hivex.core.model.links import LinkName

        name = LinkName.of(namespace, self.link)
        is_created = True
        try:
            links.create(namespace, self.link, static=self.static, properties=self.properties, owner=self.owner)
        except AlreadyExistsError as error:
            # Another link to the same table has another name.
            if error.name != str(name):
                raise
            is_created = False
        source = links.source(links.get(namespace, self.link))
        # A new link to a table with partitions does not show the present partitions of the table.
        shown: list[str] | None = [] if (is_created or is_retry) and not source.is_partitioned else None
        return _Change({"source": source.full_name, "is_created": is_created}, shown)


class HivexAlterLinkOperator(_LinkOperator):
    """Add partitions to a link, drop others, and set its properties.

    The operator returns ``{"namespace", "link", "added", "dropped"}`` with the names of the changed partitions.

    :param link: ``table@namespace`` (templated)
    :param namespace: the namespace that has the link; by default the database of the connection (templated)
    :param add_partitions: names of partitions of the source, such as ``ds=2013-01-01`` (templated)
    :param drop_partitions: names of partitions to remove from the link. The source keeps them (templated)
    :param properties: properties to set, such as ``{"RETENTION": "90"}`` (templated)
    :param hivex_conn_id: the connection of type ``hivex`` (templated)
    :param asset_events: whether to send an event for the asset of each changed table or link
    """

    template_fields: Sequence[str] = (
        "link",
        "namespace",
        "add_partitions",
        "drop_partitions",
        "properties",
        "hivex_conn_id",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = dict.fromkeys(
        ("add_partitions", "drop_partitions", "properties"), "json"
    )

    def __init__(
        self,
        *,
        add_partitions: Sequence[str] = (),
        drop_partitions: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.add_partitions = add_partitions
        self.drop_partitions = drop_partitions
        self.properties = properties

    def _change(self, links: Links, namespace: str, *, is_retry: bool) -> _Change:
        added: list[str] = []
        dropped: list[str] = []
        if self.add_partitions:
            added = links.add_partitions(namespace, self.link, list(self.add_partitions), if_not_exists=True)
        if self.drop_partitions:
            dropped = links.drop_partitions(namespace, self.link, list(self.drop_partitions), if_exists=True)
        if self.properties:
            links.set_properties(namespace, self.link, self.properties)
        shown = list(self.add_partitions) if is_retry else added
        return _Change({"added": added, "dropped": dropped}, shown or None)


class HivexDropLinkOperator(_LinkOperator):
    """Drop a link if it exists. The rows of its source stay.

    The operator returns ``{"namespace", "link", "is_dropped"}``.

    :param link: ``table@namespace`` (templated)
    :param namespace: the namespace that has the link; by default the database of the connection (templated)
    :param hivex_conn_id: the connection of type ``hivex`` (templated)
    :param asset_events: whether to send an event for the asset of each changed table or link
    """

    template_fields: Sequence[str] = ("link", "namespace", "hivex_conn_id")

    def _change(self, links: Links, namespace: str, *, is_retry: bool) -> _Change:  # noqa: ARG002 - as the others
        from airflow_hivex.core.errors import NoSuchLinkError

        try:
            links.drop(namespace, self.link)
        except NoSuchLinkError:
            return _Change({"is_dropped": False}, is_dropped=True)
        return _Change({"is_dropped": True}, is_dropped=True)
