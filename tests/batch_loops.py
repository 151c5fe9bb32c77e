"""The batch loops of a program, for tests."""

from wengert.schedule.memory import loops_of


def batch_loops(program):
    """The loops over blocks of an axis."""
    return [loop for loop in loops_of(program.kernels) if loop.blocks is not None]


def sizes(loop):
    """The width of a block, and how many there are."""
    return loop.blocks.width, loop.blocks.count
