"""Sizes that generated entries and those who call them agree on."""

from __future__ import annotations

STACK_ARENA_LIMIT = 16 * 1024  # a smaller arena lives on the entry's stack: no lock, safe by itself
# The room grows with the length rounded up to this, so that all that lies in it is aligned.
ROOM_GRAIN = 64
