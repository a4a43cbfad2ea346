"""Catalogue of mistakes that a user can make, with the stored message of each and its grade.

The modules list the mistakes by area, and `messages` has the answers. A message has a point for each of these:

* ``place``: it says where, by a position in the query with a caret, by file, row and column, or by the option.
* ``expectation``: it says what is expected there, and what was found if that is not evident.
* ``remedy``: it says what to do. Values that can be written there (a list of names, a range) are a remedy; so is a name
  that was probably meant.

Read a new message as somebody who uses fastcep for the first time, and set the points that it has. If one is missing,
change the message. ``PYTHONPATH=.:tests python -m mistakes --write`` stores messages, and removes the grades of those
that changed.
"""
