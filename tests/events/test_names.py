"""Ids of event types by name: `Schema.type_ids` and its kernel."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcep._core.input.name_codes import Names
from fastcep.events import EventBatch, Schema, StringTable
from fastcep.events.convert import texts

UNKNOWN = 65_535
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)


@given(
    st.lists(TEXTS.filter(bool), min_size=1, max_size=40, unique=True), st.data(),
    st.sampled_from([pa.string(), pa.large_string()]), st.integers(0, 3),
)  # fmt: skip
def test_ids_are_indices_of_the_names(names, data, kind, skipped):
    queried = data.draw(st.lists(st.sampled_from(names) | TEXTS, max_size=30))
    array = pa.array(["outside the slice"] * skipped + queried, kind).slice(skipped)
    ids = Schema({name: {} for name in names}, type="type").type_ids(*texts(array))
    assert ids.dtype == np.uint16
    assert ids.tolist() == [names.index(text) if text in names else UNKNOWN for text in queried]


@pytest.mark.parametrize("length", [1, 7, 8, 9, 15, 16, 17, 24, 40])
def test_names_that_differ_in_one_byte(length):
    names = ["a" * place + other + "a" * (length - place - 1) for place in range(length) for other in "bc"]
    others = ["a" * length, "a" * (length - 1), "", "a\0"]
    others += [changed for name in names for changed in (name[:-1], name + "\0")]
    queried = [*names, *(text for text in others if text not in names)]
    ids = Schema({name: {} for name in names}, type="type").type_ids(*texts(pa.array(queried * 2)))
    assert ids.tolist() == [*range(len(names)), *[UNKNOWN] * (len(queried) - len(names))] * 2


@pytest.mark.parametrize("length", [1, 3, 8, 20])
def test_names_that_differ_in_length(length):
    """The words of these texts are the same, and some of them have the same slot."""
    name, filler = "a" * length, "a" if length >= 8 else "\0"
    longer = [name + filler * more for more in range(1, 40 if length > 8 else 8 - length)]
    ids = Schema({name: {}}, type="type").type_ids(*texts(pa.array([name, *longer])))
    assert ids.tolist() == [0] + [UNKNOWN] * len(longer)


@pytest.mark.parametrize("pattern", ["T{}", "sensor{:02d}.temp", "com.acme.sensors.{:05d}.temperature", "{:b}"])
@pytest.mark.parametrize("count", [10, 60, 256, 16_000])
def test_names_are_found_in_a_few_slots(pattern, count):
    """Whatever bytes distinguish the names: few of them collide in a table that is at most a quarter full."""
    assert Names([pattern.format(number).encode() for number in range(count)]).probes <= 1.2 * count


@pytest.mark.thorough
def test_largest_number_of_names():
    names = [f"T{number}" for number in range(65_535)]
    ids = Schema({name: {} for name in names}, type="type").type_ids(*texts(pa.array([*names, "T65535"])))
    assert ids.tolist() == list(range(65_536))
    with pytest.raises(ValueError, match="at most 65535"):
        Names([name.encode() for name in [*names, "T65535"]])


KINDS = (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()))


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_type_names_of_every_string_type(kind):
    schema = Schema({"Ä": {}, "B": {}}, type="type", other_types="ignore")
    kinds = pa.array(["B", "Ä", "b", "B", "ÄB"]).cast(kind)
    batch = EventBatch.from_data(schema, pa.table({"ts": range(5), "type": kinds}), StringTable())
    assert batch.type.tolist() == [1, 0, 1]
    assert batch.time.tolist() == [0, 1, 3]


def test_no_names():
    assert Schema({"A": {}, "B": {}}, type="type").type_ids(*texts(pa.array([], pa.string()))).tolist() == []
