"""Compiled kernels. They import nothing of fastcep and work on typed buffers without the GIL."""
