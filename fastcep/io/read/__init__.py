"""Read files, standard input and tables as batches of rows, and collect invalid rows."""
