"""The factorised store of a query: events in buckets, and the search for the matches they form."""
