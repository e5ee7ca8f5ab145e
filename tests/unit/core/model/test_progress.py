from __future__ import annotations

from airflow_hivex.core.model.progress import Progress


def test_a_line_has_the_counts_that_the_cluster_reports() -> None:
    counts = Progress(stages=3, stages_done=1, tasks=200, tasks_done=37, tasks_running=2, elapsed_s=12.4)
    assert counts.describe() == "12 s: 1 of 3 stages and 37 of 200 tasks are done, 2 tasks run"


def test_a_line_has_rows_sizes_failures_and_the_link() -> None:
    counts = Progress(
        tasks_failed=1, rows_read=1234567, rows_written=0, bytes_read=3 * 1024**3 // 2, link="http://spark:4040"
    )
    assert counts.describe() == (
        "0 s: 0 of 0 stages and 0 of 0 tasks are done, 0 tasks run, 1 tasks have failed, 1,234,567 rows read, "
        "1.5 GiB read, 0 rows written; http://spark:4040"
    )


def test_a_size_below_one_unit_is_in_bytes() -> None:
    assert "1023 B read" in Progress(bytes_read=1023).describe()
