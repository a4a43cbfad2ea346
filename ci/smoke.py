"""Check that the installed package, not a source tree, answers a small query."""

import sysconfig
from pathlib import Path

import fastcep as fc

package = Path(fc.__file__).parent
assert package.parent == Path(sysconfig.get_path("platlib")), f"fastcep comes from {package}, not from site-packages"
assert (package / "py.typed").is_file(), "py.typed is missing from the wheel"
assert any((package / "_core").glob("*/*.pyi")), "the stubs of _core are missing from the wheel"
assert not any((package / "_core").glob("*/*.c")), "generated C code is in the wheel"

schema = fc.Schema({"A": {"ID": "int64"}, "B": {"ID": "int64"}}, time="ts", type="type", time_unit="ms")
query = fc.parse("PATTERN SEQ(A a, B b) WHERE a.ID = b.ID AND a.ID + b.ID < 9 WITHIN 8ms", schema, name="pair")
engine = fc.Engine(query)
matches = engine.process({"type": ["A", "A", "B", "B"], "ts": [0, 1, 8, 9], "ID": [1, 2, 1, 2]}).to_arrow()
assert list(zip(matches["a"].to_pylist(), matches["b"].to_pylist(), strict=True)) == [(0, 2), (1, 3)], matches
assert engine.compile("2min"), f"kernels cannot be generated: {engine.metrics()['kernels']}"
again = engine.process({"type": ["A", "B", "A", "B"], "ts": [20, 21, 22, 23], "ID": [4, 4, 5, 5]}).to_arrow()
assert again["a"].to_pylist() == [4], again
