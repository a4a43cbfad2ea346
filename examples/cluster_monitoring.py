"""Cluster monitoring: tasks that fail on one machine, are scheduled on another, and fail there too.

Then the program is at fault, and not the machine. The stream is the shipped part of the Google cluster trace of 2011:
172,825 events of 84 minutes. Its event type is an integer code in the column `kind`.
"""

from __future__ import annotations

from collections import Counter

import pyarrow.parquet as parquet

import fastcep as fc
from fastcep import datasets

KINDS = ("Submit", "Schedule", "Evict", "Fail", "Finish", "Kill")
SCHEMA = fc.Schema(
    {kind: {"job": "int64", "task": "int64", "machine": "int64"} for kind in KINDS},
    time="time", type="kind", time_unit="us", codes={kind: code for code, kind in enumerate(KINDS)},
)  # fmt: skip
QUERY = fc.parse(
    """
    PATTERN SEQ(Fail a, Schedule b, Fail c)
    WHERE [job, task] AND a.machine != b.machine AND b.machine = c.machine
    WITHIN 10min
    RETURN a.job AS job, a.task AS task, c.time - b.time AS lived
    """,
    SCHEMA,
    name="fails_everywhere",
)


def faulty_jobs(batch_size: int = 20_000) -> Counter[int]:
    """Return the number of matches of each job. The trace is read in batches, as a live stream would be."""
    engine, jobs = fc.Engine(QUERY), Counter[int]()
    for batch in parquet.ParquetFile(datasets.path("google_2011")).iter_batches(batch_size):
        jobs.update(match["job"] for match in engine.process(batch))
    return jobs


def main() -> None:
    """Print the jobs with the most such failures."""
    for job, count in faulty_jobs().most_common(5):
        print(f"job {job}: a task failed on a second machine {count} times")


if __name__ == "__main__":
    main()
