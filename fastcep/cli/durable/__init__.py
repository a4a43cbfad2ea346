"""``fastcep run --checkpoint``: runs that resume after a crash. Position, state and output are committed atomically."""
