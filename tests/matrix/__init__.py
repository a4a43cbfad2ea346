"""One strategy for whole queries and whole runs, compared with the reference matcher.

Every clause of the language (`clauses`) and every way of running a query (`runs`) is drawn independently of all others
(`queries`, `runs`). A combination that fastcep rejects is counted with its reason (`refusals`), and the draw continues
without the rejected clause or option; an error that is not on the list of refusals fails the test.

``python -m matrix --write`` (with ``PYTHONPATH=.:tests``) draws many examples, writes how often each pair of clauses,
and each clause with each path, was drawn into docs/matrix.md, and fails if a pair was neither drawn nor refused.
"""
