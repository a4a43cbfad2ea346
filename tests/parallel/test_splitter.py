"""Where slices begin, and which matches they own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcep.parallel.splitter import Slice, Splitter
from fastcep.plan.slicing import Context

CONTEXTS = [
    Context(0), Context(5), Context(40), Context(events=1), Context(events=4), Context(4, 3),
    Context(6, every_nanoseconds=7), Context(6, every_events=3), Context(events=4, every_events=2),
    Context(2**63 - 1),
]  # fmt: skip


def contents(context: Context, least: int, most: int, batches: list[list[int]]) -> dict[Slice, list[int]]:
    """Return the positions of the events of each slice."""
    splitter, position, found = Splitter(context, least, most), 0, dict[Slice, list[int]]()
    ended: set[Slice] = set()
    for batch in batches:
        for feed in splitter.split(np.array(batch, np.int64)):
            assert feed.slice not in ended, "no feed comes after the last one"
            found.setdefault(feed.slice, []).extend(range(position + feed.first, position + feed.last))
            ended |= {feed.slice} if feed.ends else set()
        position += len(batch)
    assert splitter.fed == sum(map(len, found.values()))
    assert len(found) - len(ended) <= 2, "at most two slices are open"
    return found


@pytest.mark.parametrize("context", CONTEXTS, ids=str)
@given(st.data())
def test_every_match_has_one_owner_with_its_context(context: Context, data: st.DataObject) -> None:
    random = data.draw(st.randoms(use_true_random=False), "random")
    events = random.randrange(1, 80)
    gaps = random.choices([0, 0, 1, 3, 12], [2, 2, 3, 2, random.choice([0, 1])], k=events)
    times = (np.cumsum(gaps) - 20).tolist()
    least = random.randrange(1, 9)
    cuts = sorted(random.sample(range(events + 1), random.randrange(min(events, 6))))
    batches = [times[a:b] for a, b in zip([0, *cuts], [*cuts, len(times)], strict=True)]
    found = contents(context, least, least + random.randrange(20), batches)
    assert [item.number for item in found] == list(range(len(found)))
    owning = [item for item in found if item.owns]
    assert owning[0].start is None and owning[-1].stop is None
    assert [item.start for item in owning[1:]] == [item.stop for item in owning[:-1]]
    for item, positions in found.items():
        assert positions == list(range(positions[0], positions[-1] + 1)), "a slice has consecutive events"
        assert (positions[0], times[positions[0]]) == (item.position, item.time)
        if not item.owns:
            continue
        owned = [at for at, time in enumerate(times) if (item.start is None or time >= item.start)
                 and (item.stop is None or time < item.stop)]  # fmt: skip
        assert set(owned) <= set(positions), "a slice contains the events that it owns"
        if item.start is not None:
            assert {at for at, time in enumerate(times) if item.start - context.nanoseconds <= time < item.start} <= {
                *positions
            }
            assert set(range(owned[0] - context.events, owned[0])) <= set(positions)
            assert item.position % (context.every_events or 1) == 0
            if every := context.every_nanoseconds:  # the first event of a period
                assert times[item.position - 1] // every < item.time // every


@given(st.data())
def test_slices_do_not_depend_on_batches(data: st.DataObject) -> None:
    random = data.draw(st.randoms(use_true_random=False), "random")
    times = np.cumsum(random.choices([0, 1, 2], k=60)).tolist()
    context, least = data.draw(st.sampled_from(CONTEXTS), "context"), data.draw(st.integers(1, 5), "least")
    size = data.draw(st.integers(1, 9), "batch size")

    def described(batches: list[list[int]]) -> list[tuple[object, ...]]:
        found = contents(context, least, 30, batches)
        return [(item.number, item.position, item.start, item.stop, item.owns, at) for item, at in found.items()]

    assert described([times[at : at + size] for at in range(0, len(times), size)]) == described([times])


def test_slices_own_eight_times_their_context() -> None:
    splitter = Splitter(Context(99), 10, 10**6)
    feeds = splitter.split(np.arange(10_000))
    begins = sorted({feed.slice.position for feed in feeds})
    assert begins[:3] == [0, 10, 810], "the first slice cannot know the number of events in its context"
    assert splitter.fed / splitter.position < 1.15


@pytest.mark.parametrize(("most", "expected"), [(10**6, 800), (300, 300), (20, 100)])
def test_slices_have_at_most_so_many_events_or_their_context(most: int, expected: int) -> None:
    splitter = Splitter(Context(99), 20, most)
    positions = [feed.slice.position for feed in splitter.split(np.arange(20_000)) if feed.ends]
    assert np.diff(positions)[-3:].tolist() == [expected] * 3
