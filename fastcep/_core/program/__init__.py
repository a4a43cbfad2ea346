"""What a query was compiled to: the interpreter of predicates, and the tables of a plan as C structures."""
