"""Run a self-join on Spark, with the Python of its virtual environment: spark_job.py EVENTS.parquet RUNS SQL.

Print ``run MATCHES CPU WALL`` for every run; the CPU time is that of Spark's Java process and of this process.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as sf


def main() -> None:
    file, runs, text = sys.argv[1:]
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.driver.memory", "4g")
        .config("spark.driver.extraJavaOptions", "-XX:+UseParallelGC")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    java = spark._jvm.java.lang.ProcessHandle.current().pid()
    events = spark.read.parquet(file).coalesce(1).cache()
    events.count()
    events.createOrReplaceTempView("events")
    for _ in range(int(runs)):
        cpu, wall = _seconds(java), time.perf_counter()
        seen = Observation()
        matches_frame = spark.sql(text).observe(seen, sf.count(sf.lit(1)).alias("matches"))
        matches_frame.write.format("noop").mode("overwrite").save()
        matches = seen.get["matches"]
        print("run", matches, _seconds(java) - cpu, time.perf_counter() - wall, flush=True)
    spark.stop()


def _seconds(process: int) -> float:
    """Return the user and system seconds of another process with all its threads, and of this process."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") + time.process_time()


if __name__ == "__main__":
    main()
