"""Detection on streaming DataFrames: micro-batches, with the state of the engines in a checkpoint.

Data flow: `writer` starts the query and gets each micro-batch from Spark, `batch` measures the batch and sends each
event to its slice, `slice_task` runs the engines of a slice (`slice_engine`) and writes their state and rows, `commit`
makes the batch valid with one rename, and `sinks` passes the rows on. `assignment` divides the key groups among slices.

Invariant (tested): the rows of all batches are those of one engine that gets each micro-batch sorted by time, however
often the driver or a task is killed.
"""
