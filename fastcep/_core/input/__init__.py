"""Convert Arrow data, dicts and single events to the C arrays of a batch; run the filters that queries share."""
