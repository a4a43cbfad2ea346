"""Complete matches: absence, selection and consumption, the wait for the end of a window, the columns given out."""
