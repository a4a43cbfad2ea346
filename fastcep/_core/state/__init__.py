"""The state of one running query (``core``), its metrics, and the removal of rows."""
