"""The name under which Airflow looks for a provider's folder `example_dags`.

Airflow imports the module that has the name of the distribution, `airflow-provider-hivex`, and logs an error with a
traceback if there is none. The code of the provider is in `airflow_hivex`.

Source: airflow/dag_processing/bundles/manager.py, `_add_provider_example_dags_to_bundle`.
"""

from __future__ import annotations
