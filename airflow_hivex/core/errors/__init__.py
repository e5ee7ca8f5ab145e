"""The one error tree of the warehouse, a module for each subject.

Every error says what happened, on which object, and what to do next. Three attributes let a caller decide without
reading the sentence. ``code`` names the case. ``retryable`` is true if the same call can succeed later. ``outcome``
says whether anything was changed.
"""

from __future__ import annotations

from airflow_hivex.core.errors.catalog import *
from airflow_hivex.core.errors.clusters import *
from airflow_hivex.core.errors.metastores import *
from airflow_hivex.core.errors.namespaces import *
from airflow_hivex.core.errors.root import *
from airflow_hivex.core.errors.sql import *
from airflow_hivex.core.errors.transactions import *
