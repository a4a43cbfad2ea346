"""Functions of users: their registry and native code."""
