"""The builder: queries as Python expressions."""
