"""Arrow data, dicts and single events become the C arrays of a batch; filters that the queries of an engine share."""
