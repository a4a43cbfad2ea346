"""The compiled form of a query: the predicate interpreter and the plan as C structures."""
