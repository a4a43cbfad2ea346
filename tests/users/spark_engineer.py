"""Spark engineer: the same query on a DataFrame and on a stream of files that continues after a restart.

Bikes that are moved: a trip that begins elsewhere than the bike's trip before has ended, within a day.

The environment of fastcep is activated, so that Spark's workers find it (docs/spark.md). Each comment
``docs/PAGE#SECTION`` is a look-up: the section where the call on that line was found.
"""

from datetime import timedelta
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import fastcep as fc
import fastcep.datasets
import fastcep.spark

spark = SparkSession.builder.getOrCreate()
trips = spark.read.parquet(str(fastcep.datasets.path("bayarea_2014")))  # docs/spark.md#from-parquet-to-matches
trips = trips.where("start_date < '2014-01-15'")

columns = {"bike": "bike_id", "start": "start_terminal", "end": "end_terminal"}
schema = fc.Schema(  # docs/spark.md#from-parquet-to-matches
    {"Trip": dict.fromkeys(columns, "int64")}, time="start_date", sources={"Trip": columns}
)
query = fc.parse(
    """
    PATTERN SEQ(Trip a, Trip b) WHERE b.start != a.end WITHIN 24h PARTITION BY bike
    STRATEGY partition_contiguity  -- docs/which_strategy.md#neighbours
    RETURN a.bike AS bike, a.end AS left_at, b.start AS found_at
    """,
    schema, name="moved",
)  # fmt: skip
order = ["bike_id", "end_terminal"]
print(fastcep.spark.explain(trips, query, order_by=order))  # docs/spark.md#from-parquet-to-matches
moved = fastcep.spark.detect(trips, query, order_by=order)  # docs/spark.md#from-parquet-to-matches
counts = moved.groupBy("left_at").count().orderBy(F.desc("count"), "left_at")
counts.show(3)
total = moved.count()

# The same as a stream: two files, and a restart between them.
folder = Path.cwd()
half = trips.sort("start_date").limit(trips.count() // 2)
rest = trips.exceptAll(half)


def arrive(rows: DataFrame) -> None:
    """Put files into the folder that the stream reads."""
    rows.sort("start_date").write.mode("append").parquet(str(folder / "trips"))


def run() -> None:
    """Process the files that are new, and stop."""
    stream = spark.readStream.schema(trips.schema).parquet(str(folder / "trips"))
    fastcep.spark.write_matches(  # docs/spark_streaming.md#from-files-to-files
        stream, query, sink=folder / "moved", checkpoint=folder / "state", order_by=order,
        allowed_lateness="1h", slices=2, trigger={"availableNow": True},
    ).awaitTermination()  # fmt: skip


arrive(half)
run()
arrive(rest)
run()
rows = spark.read.parquet(str(folder / "moved"))
found = rows.where("kind = 'match'")  # docs/spark_streaming.md#rows
late = rows.where("kind = 'late'")
print(total, found.count(), late.count())

# The stream holds back the events of the last hour, because later ones may come (docs/time.md#out-of-order-input).
[row] = trips.agg(F.max("start_date").alias("last")).collect()
held = trips.where(F.col("start_date") >= row["last"] - timedelta(hours=1)).count()
assert late.count() == 0 and total > 500
assert total - held <= found.count() <= total
