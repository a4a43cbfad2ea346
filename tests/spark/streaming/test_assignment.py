"""Key groups in Spark are those of the engine, and slices divide them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastcep as fc
from fastcep.engine.state.keygroups import GROUPS
from fastcep.plan import make_plan
from fastcep.plan.plan import KeyPlan
from fastcep.spark.columns import events_of
from fastcep.spark.streaming.assignment import Unit, assign_units, group_sql, owners_of

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("int64", [0, 1, -1, 7, 2**63 - 1, -(2**63), None]),
        ("float64", [0.0, -0.0, 1.5, float("inf"), float("nan"), -1e300, None]),
        ("bool", [True, False, None]),
        ("string", ["", "a", "é", "x" * 7, "y" * 8, "z" * 31, "w" * 32, "v" * 100, None]),
    ],
)
def test_groups_of_spark_and_the_engine(spark: Any, dtype: str, values: list[Any]) -> None:
    schema = fc.Schema({"A": {"x": dtype}, "B": {"y": dtype}}, time="ts", type="type", time_unit="us")
    plan = make_plan(fc.parse("PATTERN SEQ(A a, B b) WHERE a.x = b.y WITHIN 1s", schema))
    assert isinstance(plan.key, KeyPlan)
    arrow = {"int64": pa.int64(), "float64": pa.float64(), "bool": pa.bool_(), "string": pa.string()}[dtype]
    for kind, name in (("A", "x"), ("B", "y")):
        columns = {"ts": pa.array(range(len(values)), pa.int64()), "type": [kind] * len(values)}
        columns |= {column: pa.array(values if column == name else values[::-1], arrow) for column in "xy"}
        events = events_of(spark.createDataFrame(pa.table(columns)), schema)
        rows = events.frame.selectExpr("raw", f"{group_sql(plan, plan.key)} AS found").collect()
        assert [row["found"] for row in sorted(rows)] == [fc.key_group(value) for value in values]


@given(st.lists(st.integers(1, GROUPS), min_size=1, max_size=6))
def test_each_group_has_one_unit(counts: list[int]) -> None:
    units: list[Unit] = []
    for batch, count in enumerate(counts):
        slices = assign_units(units, count)
        assert len(slices) == count and all(slices)
        now = [unit for units_of_slice in slices for unit in units_of_slice]
        assert sorted(group for unit in now for group in unit.groups) == list(range(GROUPS))
        owners = owners_of(now)
        for number, unit in enumerate(now):
            assert all(owners[group] == number for group in unit.groups)
            (source,) = [old for old in units if unit.groups[0] in old.groups] or [Unit(unit.groups)]
            assert set(unit.groups) <= set(source.groups) and unit.state == source.state
            assert unit.is_part == (unit.groups != source.groups)
        units = [Unit(unit.groups, f"{batch}-{number}") for number, unit in enumerate(now)]
    assert len(units) <= GROUPS
