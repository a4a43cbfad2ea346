"""``fastcep run --checkpoint``: runs that go on after a crash, with position, state and output committed together."""
