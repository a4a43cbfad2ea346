"""Tables in docs/ that are generated from tests."""
