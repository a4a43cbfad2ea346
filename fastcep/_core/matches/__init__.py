"""Complete matches: negation, selection and consumption, matches that wait for the end of a window, output columns."""
