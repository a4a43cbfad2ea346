"""Load shedding inside the matcher: drop events and partial matches, and record the lineage from which models are fitted."""
