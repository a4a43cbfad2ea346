"""Run the tasks that read Parquet files in this process, without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

import fastcep as fc
from fastcep.plan.slicing import Context
from fastcep.spark.files.cutter import cut_by_time, packed
from fastcep.spark.files.job import _columns, file_detection
from fastcep.spark.files.row_groups import files_of
from fastcep.spark.query_group import group_of
from fastcep.spark.slice_task import ORDER


def found_in_files(
    paths: Sequence[str], kinds: Mapping[str, str], queries: list[fc.Query], slice_count: int, **options: Any
) -> pa.Table:
    """Return the matches in all slices of files, sorted by the order that they come with."""
    group = group_of(queries)
    columns, context = _columns(group, None), group.possible.time
    assert columns is not None
    assert isinstance(context, Context)
    files = files_of(paths, kinds, group.schema, columns, any_order=True)
    assert files is not None
    slices = cut_by_time(files, slice_count, 1, context, most_reread=99)
    assert slices is not None
    task = file_detection(group, None, files, options, exact=True)
    batches = task(packed(slices).to_batches(max_chunksize=1))
    return pa.Table.from_batches(batches, task.detection.schema).sort_by(ORDER)
