"""Detect matches in Parquet files that tasks read themselves."""
