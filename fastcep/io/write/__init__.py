"""Write tables to files and standard output."""
