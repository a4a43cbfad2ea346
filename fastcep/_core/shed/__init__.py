"""Load shedding in the matcher: drop events and partial matches, and record the lineage to which models are fitted."""
