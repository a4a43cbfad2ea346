"""Load shedding inside the matcher: what is dropped, and the records from which models of a stream are fitted."""
