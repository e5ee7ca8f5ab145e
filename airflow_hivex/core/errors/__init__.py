"""The one error tree of the warehouse, a module for each subject.

Every error says what happened, on which object, and what to do next. Three facts let a caller decide without reading
the sentence: ``code`` names the case, ``retryable`` says whether the same call may succeed later, and ``outcome``
whether anything was changed.
"""

from __future__ import annotations

from airflow_hivex.core.errors.catalog import *
from airflow_hivex.core.errors.clusters import *
from airflow_hivex.core.errors.metastores import *
from airflow_hivex.core.errors.namespaces import *
from airflow_hivex.core.errors.root import *
from airflow_hivex.core.errors.sql import *
from airflow_hivex.core.errors.transactions import *
