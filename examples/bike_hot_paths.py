"""Hot paths on a map: a bike makes three trips or more within an hour, each from the station where the last one ended.

The stream has all trips of Bay Area Bike Share in 2014. The shipped data has no coordinates, so the map is schematic:
stations with many trips between them are drawn close together. Arrows are the trips of hot paths, wider if frequent.
"""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

import fastcep as fc
from fastcep import datasets

Edge = tuple[int, int]

QUERY = fc.parse(
    """
    STREAM TIME 'start_date'
    EVENT Trip (bike int64 FROM 'bike_id', start int64 FROM 'start_terminal', end int64 FROM 'end_terminal')
    QUERY hot_paths
    PATTERN SEQ(Trip{3,} a[])
    WHERE a[i+1].bike = a[i].bike AND a[i+1].start = a[i].end
    WITHIN 1h
    RETURN a[].start AS starts, a[].end AS ends
    """
)


def hot_trips(trips: pa.Table) -> Counter[Edge]:
    """Count the trips from one station to another on hot paths, once for each path that has them."""
    counts: Counter[Edge] = Counter()
    for match in fc.Engine(QUERY).process(trips):
        counts.update(edge for edge in zip(match["starts"], match["ends"], strict=True) if edge[0] != edge[1])
    return counts


def layout(edges: Counter[Edge], steps: int = 300) -> dict[int, tuple[float, float]]:
    """Place the stations so that trips pull stations together while all stations push each other away."""
    stations = sorted({station for edge in edges for station in edge})
    number = {station: place for place, station in enumerate(stations)}
    pull = np.zeros((len(stations), len(stations)))
    for (start, end), count in edges.items():
        pull[number[start], number[end]] = pull[number[end], number[start]] = np.sqrt(count)
    pull /= pull.max()
    place = np.random.default_rng(1).normal(size=(len(stations), 2))
    for step in range(steps):
        away = place[:, None] - place[None]
        distance = np.linalg.norm(away, axis=2)[..., None] + 1e-3
        force = (away / distance**2 - pull[..., None] * away * distance).sum(axis=1)
        place += force / np.linalg.norm(force, axis=1, keepdims=True) * 0.1 * (1 - step / steps)
    return {station: (float(x), float(y)) for station, (x, y) in zip(stations, place, strict=True)}


def draw(edges: Counter[Edge], names: dict[int, str], path: str) -> None:
    """Write the map to a file, PNG or SVG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    places, most = layout(edges), max(edges.values())
    figure, axes = plt.subplots(figsize=(10, 10), layout="constrained")
    for (start, end), count in edges.items():
        style = {"arrowstyle": "-|>", "connectionstyle": "arc3,rad=0.1", "color": "tab:red", "shrinkB": 4}
        axes.annotate("", places[end], places[start], arrowprops=style | {"lw": 4 * count / most, "alpha": 0.6})
    for station, place in places.items():
        axes.plot(*place, "o", color="black", markersize=4)
        axes.annotate(names[station], place, xytext=(5, 3), textcoords="offset points", fontsize=8)
    axes.set_axis_off()
    axes.set_title("Trips of hot paths, Bay Area Bike Share 2014 (schematic)")
    figure.savefig(path)
    plt.close(figure)


def main(path: str = "hot_paths_map.png") -> None:
    """Print the most frequent trips of hot paths, and draw the map."""
    trips = parquet.read_table(datasets.path("bayarea_2014"))
    stations = trips.select(["start_terminal", "start_station"]).group_by(["start_terminal", "start_station"])
    names = {row["start_terminal"]: row["start_station"] for row in stations.aggregate([]).to_pylist()}
    hottest = Counter(dict(hot_trips(trips).most_common(40)))
    for (start, end), count in hottest.most_common(5):
        print(f"{count:5}  {names[start]} → {names[end]}")
    draw(hottest, names, path)
    print(f"map: {path}")


if __name__ == "__main__":
    main(*sys.argv[1:])
