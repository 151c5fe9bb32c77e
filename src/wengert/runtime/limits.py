"""Sizes and error codes that generated entries and those who call them agree on."""

from __future__ import annotations

STACK_ARENA_LIMIT = 16 * 1024  # a smaller arena lives on the entry's stack: no lock, safe by itself
# The room grows with the length rounded up to this, so that all that lies in it is aligned.
ROOM_GRAIN = 64

NO_FALLBACK = -1  # the code given to on_error when the cell of the next callable is empty
# Codes of a program for any length: its room is too small, it has no answer for length 0, and it is
# not known whether the function takes the same steps at this length.
ROOM_TOO_SMALL, NO_ELEMENTS, NEW_LENGTH = -3, -4, -5
# Codes from here on down: a loop has more steps than there is memory for. The difference is the
# number of the loop times STEP_CODES, and the power of two that the steps are at most.
MORE_STEPS, STEP_CODES = -64, 64


def steps_code(loop: int, steps: int) -> int:
    """The code by which a loop tells how much memory it needs.

    >>> divmod(MORE_STEPS - steps_code(3, 1000), STEP_CODES)
    (3, 10)
    """
    return MORE_STEPS - STEP_CODES * loop - (steps - 1).bit_length()


# Lengths that are known are kept in a table of so many words, each in its place.
KNOWN_LENGTHS = 1024
# Results of each kind that are kept to be used again: two, because a caller usually holds the last
# one while it calls.
SPARES = 2
