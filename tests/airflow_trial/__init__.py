"""The warehouse under a full Airflow that is killed: api-server, scheduler, dag-processor, triggerer, LocalExecutor.

``make airflow-trial`` runs it: some ten minutes on two cores. Each scenario runs DAGs, harms something, and then looks
at the rows, transactions, locks and the queue of compactions. It is not part of ``make test``.
"""
