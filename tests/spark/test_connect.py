"""``fastcep.spark.detect`` in a session of Spark Connect, which has no context and hides plans."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.waiting import LIMIT

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

ROOT = Path(__file__).parents[2]
# Runs in a separate process: the tests already have a session without Connect.
SCRIPT = """
import fastcep as fc, fastcep.spark
from pyspark.sql import SparkSession
from fastcep import datasets
from support.detection import assert_detects, one_engine, with_rows

types = dict.fromkeys("ABCD", {"ID": "int64", "V": "int64"})
spark = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "2").getOrCreate()
assert "connect" in type(spark).__module__
table = with_rows(datasets.ds1(events=5_000, seed=2))
frame = spark.createDataFrame(table)
text = "PATTERN SEQ(A a, B b, C c) WHERE [ID] AND a.V + b.V = c.V WITHIN 1ms"
for sequence, options in ((None, {"order_by": "row"}), ("row", {"slicing": "key"}), ("row", {"slicing": "time"})):
    schema = fc.Schema(types, time="ts", type="type", time_unit="us", sequence=sequence)
    query = fc.parse(text, schema, name="q")
    assert_detects(frame, query, one_engine(query, table), slices=3, **options)
survey = fastcep.spark.survey(frame, query)
assert_detects(frame, query, one_engine(query, table), survey=survey)
invalid = frame.selectExpr("type", "ID", "V", "CASE WHEN row = 7 THEN NULL ELSE ts END AS ts", "row")
try:
    fastcep.spark.detect(invalid, query).count()
except Exception as error:
    assert "column 'ts': found null in 1 row, expected a time" in str(error), error
else:
    raise AssertionError("no error")
print("same matches")
spark.stop()
"""


def test_connect(tmp_path: Path) -> None:
    environment = os.environ | {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]),
        "FASTCEP_JIT": "0",
    }
    with (tmp_path / "log").open("w") as log:
        done = subprocess.run([sys.executable, "-c", SCRIPT], stdout=log, stderr=log, env=environment, timeout=LIMIT)
    text = (tmp_path / "log").read_text()
    assert done.returncode == 0, text[-4_000:]
    assert "same matches" in text
