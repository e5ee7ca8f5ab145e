from __future__ import annotations

import pytest
from airflow.sdk import Asset

from airflow_hivex.assets.hivex import convert_asset_to_openlineage, create_asset, parse_uri, table_uri
from airflow_hivex.triggers.commits import watched_table

pytestmark = pytest.mark.airflow


def test_airflow_normalises_the_uri_of_a_table() -> None:
    assert Asset(name="sales", uri="hivex://hivex_default/Shop/SALES/").uri == "hivex://hivex_default/shop/sales"


@pytest.mark.parametrize(
    "uri",
    [
        "hivex://hivex_default",
        "hivex://hivex_default/shop",
        "hivex:///shop/sales",
        "hivex://wh/shop/sales/extra",
        "hivex://wh/shop/sales?ds=1",
        "hivex://wh/shop/sa-les",
        "hivex://user@wh/shop/sales",
        "hivex://wh//sales",
        "hivex://wh/shop/sales@",
        "hivex://wh/shop/@b",
        "hivex://wh/shop/sales@b@c",
    ],
)
def test_other_uris_are_refused_when_the_asset_is_made(uri: str) -> None:
    with pytest.raises(ValueError, match="not a valid URI of a table"):
        Asset(name="x", uri=uri)


def test_asset_of_a_table_is_made_from_its_name() -> None:
    assert create_asset(table="sales").uri == "hivex://hivex_default/default/sales"
    asset = create_asset(table="shop.Sales", hivex_conn_id="wh", extra={"a": 1})
    assert (asset.name, asset.uri, asset.extra) == ("hivex://wh/shop/sales", "hivex://wh/shop/sales", {"a": 1})
    with pytest.raises(ValueError, match="not a valid URI"):
        create_asset(table="a.b.c")


def test_asset_of_a_link_is_one_of_its_own_with_the_dataset_of_its_source() -> None:
    asset = create_asset(table="shop.Sales@B")
    assert asset.uri == Asset(name="t", uri="hivex://hivex_default/Shop/SALES@B").uri
    assert asset.uri == "hivex://hivex_default/shop/sales@b"
    assert parse_uri(asset.uri).is_link
    assert convert_asset_to_openlineage(asset, None).name == "b.sales"
    with pytest.raises(ValueError, match="watch its source"):
        watched_table("shop.sales@b")


def test_uri_has_parts() -> None:
    parts = parse_uri(str(table_uri("wh", "SHOP", "Sales")))
    assert (parts.hivex_conn_id, parts.full_name) == ("wh", "shop.sales")


def test_asset_is_a_dataset_of_openlineage() -> None:
    dataset = convert_asset_to_openlineage(create_asset(table="shop.sales"), None)
    assert (dataset.namespace, dataset.name) == ("hivex://hivex_default", "shop.sales")
