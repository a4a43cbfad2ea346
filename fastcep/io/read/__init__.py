"""From files, standard input and tables to batches of rows, and the rows that cannot be taken."""
