"""What tests share: harnesses, processes, files, and comparisons."""
