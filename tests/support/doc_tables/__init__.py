"""Tables in docs/ that are made from tests."""
