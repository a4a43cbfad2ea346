"""Match patterns in Spark DataFrames, and fit models on history of any size. Needs the extra ``spark``, and Java.

>>> import fastcep.spark
>>> matches = fastcep.spark.detect(spark.read.parquet("trips.parquet"), query)  # doctest: +SKIP
"""

from fastcep.errors import ValidationError

try:
    import pyspark
except ModuleNotFoundError as error:
    raise ValidationError(f"fastcep.spark needs {error.name}; install it with: pip install 'fastcep[spark]'") from None

from pyspark.sql import DataFrame

if not hasattr(DataFrame, "repartitionById"):
    raise ValidationError(f"fastcep.spark needs Spark 4.1 or newer, found {pyspark.__version__}; upgrade pyspark")

from fastcep.spark.cluster.executors import ExecutorPool
from fastcep.spark.cluster.runner import SparkRunner
from fastcep.spark.detect import detect, explain, in_order
from fastcep.spark.fitting.counts import counts_table, position_counts, transition_counts
from fastcep.spark.fitting.fit import fit
from fastcep.spark.slicing.survey import StreamSurvey, survey
from fastcep.spark.streaming.progress import StreamProgress, stream_progress
from fastcep.spark.streaming.writer import write_matches

__all__ = [
    "ExecutorPool",
    "SparkRunner",
    "StreamProgress",
    "StreamSurvey",
    "counts_table",
    "detect",
    "explain",
    "fit",
    "in_order",
    "position_counts",
    "stream_progress",
    "survey",
    "transition_counts",
    "write_matches",
]
