"""Convert the source files of the shipped data sets to Parquet: ``make_datasets.py SOURCE [OUT]``.

SOURCE holds ``bayarea_bikeshare/batrips_2014.csv.gz`` and ``google2011/task_events-part-00000-of-00500.csv.gz``;
``docs/datasets.md`` gives their origin. OUT is by default ``fastcep/datasets/files``. Rows keep their order; columns
that no query needs are removed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv
import pyarrow.parquet as pq

BAYAREA = "bayarea_bikeshare/batrips_2014.csv.gz"
GOOGLE = "google2011/task_events-part-00000-of-00500.csv.gz"
ROW_GROUP = 65_536  # rows; small enough for a reader in constant memory
LIMIT = 5_000_000  # bytes, all files together


def bayarea(source: Path) -> pa.Table:
    """Return the trips of 2014: start time, stations (number and name) and bike.

    Parameters
    ----------
    source
        The gzipped CSV of all columns, with header.

    Returns
    -------
    pyarrow.Table
        326,339 rows in the order of the source.
    """
    name = pa.dictionary(pa.int8(), pa.string())
    types = {
        "start_date": pa.timestamp("ms"),
        "start_terminal": pa.int16(),
        "end_terminal": pa.int16(),
        "bike_id": pa.int32(),
        "start_station": pa.string(),
        "end_station": pa.string(),
    }
    options = pv.ConvertOptions(column_types=types, include_columns=list(types), null_values=[""])
    table = pv.read_csv(source, convert_options=options)
    for column in ("start_station", "end_station"):
        encoded = table[column].combine_chunks().dictionary_encode().cast(name)
        table = table.set_column(table.schema.get_field_index(column), column, encoded)
    return table


def google(source: Path) -> pa.Table:
    """Return the stream part of the task events: all rows after the snapshot at time 0.

    Parameters
    ----------
    source
        The gzipped CSV of 13 columns, without header.

    Returns
    -------
    pyarrow.Table
        172,825 rows in the order of the source; ``time`` in microseconds; ``machine`` is null if the task
        has no machine yet.
    """
    columns = {
        "f0": ("time", pa.int64()),
        "f2": ("job", pa.int64()),
        "f3": ("task", pa.int64()),
        "f4": ("machine", pa.int64()),
        "f5": ("kind", pa.int8()),
    }
    options = pv.ConvertOptions(
        column_types={number: dtype for number, (_, dtype) in columns.items()},
        include_columns=list(columns),
        null_values=[""],
    )
    table = pv.read_csv(
        source, read_options=pv.ReadOptions(autogenerate_column_names=True), convert_options=options
    ).rename_columns([name for name, _ in columns.values()])
    return table.filter(pc.greater(table["time"], 0))


def write(table: pa.Table, path: Path, delta: list[str]) -> None:
    """Write a table as zstd Parquet, with the columns of ``delta`` delta-encoded and the others dictionary-encoded."""
    pq.write_table(
        table.combine_chunks(),
        path,
        compression="zstd",
        compression_level=19,
        row_group_size=ROW_GROUP,
        use_dictionary=[name for name in table.column_names if name not in delta],
        column_encoding=dict.fromkeys(delta, "DELTA_BINARY_PACKED"),
    )


def main() -> None:
    """Write both files and print their numbers of rows and bytes."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("source", type=Path, help="folder with the two source folders")
    parser.add_argument("out", type=Path, nargs="?", default=Path("fastcep/datasets/files"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    total = 0
    for name, table, delta in (
        ("bayarea_2014", bayarea(arguments.source / BAYAREA), ["start_date"]),
        ("google_2011", google(arguments.source / GOOGLE), ["time"]),
    ):
        path = arguments.out / f"{name}.parquet"
        write(table, path, delta)
        total += path.stat().st_size
        print(f"{path}: {table.num_rows:,} rows, {path.stat().st_size:,} bytes")
    if total >= LIMIT:
        raise SystemExit(f"{total:,} bytes in all; expected under {LIMIT:,}")


if __name__ == "__main__":
    main()
