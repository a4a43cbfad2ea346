"""The engine's state as bytes: the file format of snapshots, and the key groups that state moves in."""
