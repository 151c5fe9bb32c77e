"""The table of thresholds: what is worth doing, from where on, and how we know.

Passes, schedule and codegen decide by estimates: is this product worth a thread, do these weights
stay near, is computing a value again cheaper than keeping it? Every number that such a decision
compares with stands here once, in a group for each topic, with the reason or the measurement that
gave it. `policy_for` is where a number follows from a machine; all others hold for any machine.

Nothing here depends on the number of cores or threads: how a program is cut decides in which order
its sums are added up, and results are bitwise the same for any number of threads. Between machines
whose vectors or caches differ, the last bits may differ.

A `Policy` is part of a `machine.Machine`, which says how a test chooses another.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self, dataclass_transform


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Record:
    """Named values that never change: a frozen dataclass, made in a tenth of the time.

    >>> class Pair(Record, kw_only=False):
    ...     first: int
    ...     second: int = 2
    >>> Pair(1).replace(second=3)
    Pair(first=1, second=3)
    """

    _names: ClassVar[tuple[str, ...]] = ()
    _by_place: ClassVar[bool] = False  # whether values may be given by their place

    def __init_subclass__(cls, kw_only: bool = True) -> None:
        own = [n for n in cls.__annotations__ if n[0] != "_" and n not in cls._names]
        cls._names, cls._by_place = (*cls._names, *own), not kw_only

    def __init__(self, *given: Any, **values: Any) -> None:
        if given:
            self._name(given, values)
        for name in self._names:
            if name not in values and not hasattr(type(self), name):
                raise TypeError(f"{type(self).__name__}: got no {name}")
            self.__dict__[name] = values.pop(name) if name in values else getattr(type(self), name)
        if values:
            known = ", ".join(self._names)
            raise TypeError(
                f"{type(self).__name__}: got {', '.join(values)}, expected some of {known}"
            )
        self.__post_init__()

    def __post_init__(self) -> None:
        """What a record checks of its values."""

    def _name(self, given: tuple[Any, ...], values: dict[str, Any]) -> None:
        """Put values given by their place among those given by name."""
        names, kind = self._names[: len(given)], type(self).__name__
        if len(given) > len(self._names) * self._by_place:
            raise TypeError(f"{kind}: got {len(given)} values without a name")
        if twice := [name for name in names if name in values]:
            raise TypeError(f"{kind}: got {', '.join(twice)} twice")
        values.update(zip(names, given, strict=True))

    def replace(self, **values: Any) -> Self:
        """Return the record with some values in place of others."""
        return type(self)(**{**self._values(), **values})

    def _values(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in self._names}

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__}: {name} cannot be set; use replace")

    def __eq__(self, other: object) -> bool:
        if self is other or type(self) is not type(other):
            return self is other
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash(tuple(self._values().values()))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self._values().items())
        return f"{type(self).__name__}({values})"


class Times(Record):
    """A rough model of time, in microseconds, to compare ways to compute one thing.

    The ratios are those of steps measured on one thread, for networks of 8 to 64 channels
    (`benchmarks/bench_regions.py`).
    """

    # Arithmetic of products, a microsecond and thread.
    operations: float
    # Threads that an estimate counts on. What programs are made of must not depend on how many
    # there are in the end: sums would be added up in another order.
    threads: int = 2
    # Elements a microsecond of what is computed between products, and how many times faster it is
    # in a block, where the rest is read from the near cache.
    elements: float = 3e3
    near: float = 4.0
    # Microseconds to wake threads, and to begin an operator in one of many small blocks.
    waking: float = 5.0
    call: float = 0.02
    # How fast products are in blocks: with one lane a sample a little slower, because nothing is
    # packed; with one lane a channel faster, because nothing stays empty at the edges of images and
    # weights are read in order, but every lane that a number of channels leaves empty is lost.
    lanes: float = 0.75
    channels: float = 1.06
    # Elements a microsecond, in and out of lanes, and into blocks with channels innermost.
    moves: float = 2e3
    reads: float = 3e3
    # Rows whose time a product takes to begin: weights are packed, sums read and written again.
    beginning: float = 4.0
    # Bytes a microsecond of weights and gradients, where all of them stay in the second-level
    # cache, and where they do not.
    near_bytes: float
    far_bytes: float
    # By what the estimate for operators one by one is multiplied; tests make it large, to have
    # regions wherever there can be some.
    apart: float = 1.0


class CostLimits(Record):
    """What kernels cost, in units of about one element that is loaded, added to and stored; what an
    elementary function costs is said in `functions`."""

    scalar: int = 8  # how much longer it takes one element at a time, without vectors
    flops: int = 16  # of a product, in the time of a unit
    # Programs below this are over before anyone could press Ctrl-C: they never look whether it was.
    long_program: int = 1 << 26
    # So much may run without looking, at the end of a long program: a tenth of a second or so.
    unwatched_tail: int = 1 << 28
    # A loop that costs so much looks now and then whether to end early, and about so much lies
    # between; a product that packs nothing looks between tasks of about so many operations.
    watched_loop: int = 1 << 20
    watch_period: int = 1 << 16
    watched_flops: int = 1 << 28
    # Tiles of packed factors that a product computes between two looks.
    watched_tiles: int = 64


class ThreadLimits(Record):
    """When work is shared out to threads, in units of `Costs`."""

    # A nest cheaper than this stays on one thread; a task is never cheaper than `least_task`.
    least_shared: int = 1 << 20
    # The same for a nest soon after work that threads shared: they are still awake.
    least_awake: int = 1 << 17
    least_task: int = 1 << 16
    most_tasks: int = 64
    # More of them, up to this number, where each still takes so long and moves so many bytes: of
    # four tasks for each of sixteen threads an eighth of the time is lost at the end, of sixteen a
    # thirtieth. But memory is read faster in long pieces: sin, exp and tanh of 10^7 numbers take
    # 14.0 ms in 128 tasks of 1.2 MB on two threads and 15.6 in 256, log-sum-exp 7.4 in 64 and 7.7
    # in 96.
    long_task: int = 1 << 20
    long_task_bytes: int = 1 << 20
    many_tasks: int = 256
    # A loop that is cut into so many need not make way for one that could be cut more finely.
    enough_tasks: int = 16
    # Chunks of the vectorised loop are whole numbers of this many elements.
    grain: int = 256
    # Products of at least so many operations are shared out.
    least_flops: int = 1 << 22
    # Tasks of a product for each worker at most, and operations of a task at least: some
    # microseconds, much longer than taking it.
    tasks_per_worker: int = 8
    least_task_flops: int = 1 << 19
    # So few workers pack what they read of large products each for itself.
    few_workers: int = 4
    # A batch loop of any length with less work than this, in elements, stays on one thread.
    least_any_length: int = 1 << 17


class RegionLimits(Record):
    """Which operators along an axis become a loop over blocks of samples, and what that is like."""

    # The ways to cut that are tried, the first of equals first.
    layouts: tuple[str, ...] = ("lanes", "channels", "matrices")
    # Below this much arithmetic it is not worth looking for regions, nor along a shorter axis.
    least_work: int = 1 << 18
    shortest: int = 16
    # Samples in a block of lanes: one vector of float32, or two of float64, in the widest registers
    # that there are; so many anywhere, because sums are added up block by block.
    width: int = 16
    # Blocks that a group adds up before what they gave goes to totals that lose nothing, where a
    # group has at least twice as many: less often if sums have more than a few bytes, and never if
    # they have so many that it would take much memory.
    run: int = 16
    long_run: int = 64
    few_bytes: int = 1 << 12
    largest_total: int = 1 << 16
    # Bytes of weights that each block reads again: more than this and they no longer stay in the
    # second-level cache, so that products over the whole batch are better. The same for the bytes
    # of the largest value of a block.
    most_weights: int
    most_value: int
    # With channels innermost a block can be smaller: bytes of its largest value; and at least so
    # many blocks, of so many that this number of threads has little to wait for at the end: half a
    # block more or less, since none is as fast as the others. What comes with a block, its calls
    # and its weights to read, takes so many times as long as to read these: about as long as a
    # sample of `cnn: digits`, and a fifth of one of `cnn: VGG`. Blocks that take so many
    # microseconds may be much smaller than they could be: the sums of others would be added up in
    # many pieces.
    most_channel_value: int
    least_blocks: int = 16
    shared_by: int = 16
    beginning: float = 5.5
    long_block: float = 300.0
    # A block that does less arithmetic with each byte of its weights, or of their gradient, waits
    # for them to come from memory; unless they are few enough to stay near.
    least_use: int = 64
    always_near: int
    # Operations that are rather repeated than their result kept.
    most_repeated: int = 8
    # Groups of blocks, the leaves of the tree that each sum is: whoever is free takes the next. A
    # group takes so many microseconds at least. Many are merged one after the other while others
    # run, where that takes so small a part of their time that sixteen and more threads do not wait;
    # else there are no more than this, with parts of at most so many bytes, which are kept until
    # all can be joined at once, and take so small a part of the time.
    least_group: float = 20.0
    most_groups: int = 256
    merges_in_group: float = 128.0
    groups_apart: int = 16
    most_parts: int = 1 << 26
    joins_in_group: float = 56.0
    # Elements of sums that one thread merges at a time, while others merge others: of 260 KB for
    # each of 48 groups, sixteen threads wait for the one that does all of it.
    merged_at_once: int = 1 << 13
    # Where sums are large beside the work, few in any case; fewer where there are few blocks.
    few_groups: int = 4
    many_groups: int = 8
    # Bytes of a part from which on filling it with nothing costs more than code for a first block.
    large_part: int = 1 << 15
    # Bytes of all parts of sums along an axis of any length: short axes have to begin and join as
    # many as long ones.
    most_parts_any_length: int = 1 << 24
    # Blocks without products along an axis of any length: samples, and elements of the largest
    # value. Wide enough that the loop over blocks costs little, small enough for the first-level
    # cache.
    widest: int = 64
    most_elements: int


class MatrixLimits(Record):
    """Regions of samples that are matrices themselves."""

    # Rows of a block from which on products run at full speed, and the blocks to share out.
    enough_rows: int = 64
    fewest_blocks: int = 4
    # Rows that a sample must have of its own: else samples are rows, and all of them make one
    # matrix.
    own_rows: int = 8
    # Bytes of weights and gradients that come from the second-level cache, with what is prefetched
    # into it meanwhile; and of all weights of a region.
    second_level: int
    most_weights: int


class ChunkLimits(Record):
    """When a program that needs much memory is cut into chunks of samples."""

    # Programs that need less memory than this, in bytes, are left as they are: it is what a
    # server's last-level cache holds, and nobody misses it.
    most_memory: int = 1 << 26
    # What a chunk is cut to need, in bytes.
    memory: int = 1 << 24
    # Samples that it has at least; where there are loops, as many as threads share well (so many
    # parts, of `Scans.fewest_for_many_weights` each): what they do not share, and waking them,
    # comes with every chunk.
    least_samples: int = 16
    least_in_loops: int = 128
    parts_in_loops: int = 4
    # Operations that a chunk does at least with each byte of weights, or of their gradients, that
    # come from far away for it: so much that waiting for them does not count.
    least_use: int = 64
    # Bytes of weights and their gradients that stay near from one step of a loop to the next.
    most_near: int
    # A chunk fills whole vectors of so many lanes if possible; where a number of samples divides
    # the batch, so large a part may be lost: the rest needs no program of its own then.
    lanes: int = 16
    most_lost: float = 1 / 16
    # By how much less memory must be needed, and how many axes are looked at.
    least_saving: int = 2
    most_tried: int = 2


class ScanLimits(Record):
    """Loops over steps: what is taken out of them and into them, and their parts for threads."""

    # Rows of values that are kept to save time take at most this many bytes.
    most_kept: int = 1 << 27
    # Of rows of more bytes than this as few are kept as can be: they come from far away.
    most_kept_near: int
    # A product is heavy from this many operations for each element that it reads.
    heavy: int = 16
    # One with so many terms in each of its sums takes no longer for being done step by step. Then
    # it is done where its factors are at hand, unless all of them stay within so many bytes.
    # Without it the LSTM of `recurrent` takes a tenth longer on one thread and a quarter on two,
    # and two thirds of the time on sixteen.
    enough_terms: int = 64
    most_near: int
    # Loops around loops, done for all steps at once, one in each lane: from so many steps on, where
    # a value of a step has no more numbers than some vectors, and branches no more operations, as
    # all lanes take all of them. Where all that derivatives keep of the turns inside is more than
    # `most_kept_near`, the steps are in blocks that keep so many bytes: the gradient of 4096 rays
    # that march until they hit something takes a fifth of the time then.
    fewest_lanes: int = 8
    most_in_lane: int = 96
    most_in_branches: int = 64
    most_in_block: int
    # How many parts, the best first, and how many samples each of them has at least. Even numbers,
    # so that two threads have the same to do; if they do not divide the samples, parts differ by
    # one, unless some that do are about as many. Of the LSTM of `recurrent` 16 parts of 6 samples
    # take as long on one thread as 4 of 25, 25 parts of 4 a tenth longer.
    parts: tuple[tuple[int, int], ...] = ((32, 24), (16, 6), (12, 6), (8, 6), (4, 8), (2, 8))
    # The same where sums have more bytes than these, which each part reads and writes at every
    # step: two tiles of rows where there are more parts than two threads need.
    few_totals: int = 1 << 13
    parts_with_totals: tuple[tuple[int, int], ...] = (
        (32, 32),
        (16, 24),
        (12, 24),
        (8, 24),
        (4, 8),
        (2, 8),
    )
    about_as_many: float = 0.75
    # Each part reads all weights at every step: where these do not stay in the second-level cache,
    # parts have more samples.
    fewest_for_many_weights: int = 32
    # Microseconds that a loop must take at least, and each of more parts than a few; estimated, as
    # for operators one by one, which is about three times as long as they take.
    least_time: float = 50.0
    few_parts: int = 4
    least_part: float = 40.0
    # Elements of each value in a block of samples that have turns of their own number: some
    # vectors, so that what is done once a turn counts little, and few enough to end together.
    # Multiples of so many samples, where there are more: all lanes of vectors are then in use.
    block_of_turns: int = 128
    lanes: int = 16
    # Threads share the blocks in so many parts.
    shares_of_blocks: int = 32
    # A step that writes at most one such part of a table does so where that lies, and keeps what it
    # has read of it; else it makes a new one.
    part_of_table: int = 4


class RewritingLimits(Record):
    """What passes over a graph find worth it."""

    # A product with this many operations for each element that it reads is worth stacking factors
    # for.
    worth_stacking: int = 8
    # A correlation also multiplies the zeros; beyond this factor it is not worth it.
    most_waste: int = 2
    # Small arrays are written out as numbers where there are so many samples of them, up to so many
    # numbers each, and so many values in all.
    fewest_samples: int = 64
    most_numbers: int = 32
    most_written_out: int = 4096
    # Those of a turn of a loop, up to so many numbers each, and so many values in all: LLVM takes
    # them as one piece. Of an elementary function that takes long so many make a vector.
    most_in_registers: int = 16
    most_in_turn: int = 1024
    most_long: int = 4


class FusionLimits(Record):
    """Which values are kept in memory, and which operations share a nest."""

    # A value that takes more operations than this is not computed again in another nest; of so few
    # elements that they stay in the nearest cache, one that takes more than the second is not where
    # passes lie between those that read it. With 12, Lanczos' method in 8 steps on 40 numbers takes
    # half the time, with 48 a fifth more than that.
    most_repeated: int = 48
    most_repeated_near: int = 12
    most_near: int
    # So many operations lead to each other without memory between them: nests that share a part
    # would compute that anew, and LLVM's time grows faster than the size of a body.
    most_inlined: int = 512
    # Arrays that are put together: of more than so many, or of some that are this short, each is
    # stored by itself. Of fewer, an element is looked for where it is needed.
    most_parts: int = 16
    some_parts: int = 4
    short_part: int = 2
    # Lines of a larger value that may each divide, or do worse, for the same line of another.
    most_lines: int = 8
    # Choices in one expression; nests are cut into a few more pieces than this. Beyond so many
    # pieces choices are branches.
    most_choices: int = 24
    most_pieces: int = 27
    # An expensive value of at most this many elements is kept rather than computed again; a larger
    # one would have to come back from main memory.
    most_kept: int
    # LLVM takes a time that grows with the square of the values that a loop has at hand, and faster
    # than their number for those that its body computes.
    most_stores: int = 64
    most_values: int = 1024
    # Nests that are joined: more stores than this need more registers than there are.
    most_joined: int = 12
    # Loops shorter than this are not worth vectors of their own.
    short_loop: int = 8
    # What it costs to begin a line, in vectors of so many elements that are stored; and how much
    # less storing must cost to be worth more nests.
    line_cost: int = 4
    vector: int = 16
    much_less: int = 2
    # Rows of a turned array that are read side by side: as many as a line of the cache has
    # elements.
    turned_together: int = 16


class PrologueLimits(Record):
    """What is done to the factors of a product: where it is packed, or as a sum of expressions."""

    # What may be spent on computing an element more than once, in the units of `Costs`: about as
    # much as storing it and loading it again.
    saved: float = 2.0
    # A plan may be estimated to be so much slower than before: the estimates are no better.
    nearly: float = 1.05
    # A smaller value stays in the caches, and then packing it is no better than storing it. Nor is
    # it where each element is used less often: a product with so little to do waits for memory,
    # while a pass by itself computes the next elements meanwhile.
    large_bytes: int
    few_uses: int = 8
    few_costly_uses: int = 32
    # Loops over fewer elements than these do not make good nests of sums: each ends with the lanes
    # of a vector being added, or waits for what the turn before has stored. Where a function takes
    # long, vectors that are not full at the end of each count for more.
    few_summed: int = 64
    few_kept: int = 256
    few_costly: int = 512


class ProductLimits(Record):
    """How products are cut up: rough costs in cycles, and from where on packing is worth it.

    Loads and multiply-adds go two at a time on every processor of interest.
    """

    latency: float = 4.0
    # Loads cost a little even where they hide behind arithmetic, and vectors more than scalars:
    # they cross cache lines or come from further away. It makes tiles square rather than thin.
    traffic: float = 0.1
    tile_call: float = 12.0
    gathered_lane: float = 1.5
    scattered_lane: float = 6.0
    add_lanes: float = 9.0
    sum_chains: int = 4
    tile_length: int = 8
    # What a second size of tile costs for its code, as a share of the whole.
    second_size: float = 0.02
    # Steps of the innermost sum, and products altogether, written out in one turn of its loop.
    unrolled_steps: int = 4
    unrolled_products: int = 64
    # Tiles that must read a packed operand to make packing it worth while.
    worth_packing: int = 4
    # Bytes of packed panels of both factors that threads share at a time: what a last-level cache
    # has for them, and never more than the factors themselves.
    most_panels: int = 1 << 25
    # Tasks that pack the same for themselves, where they cannot share it: an estimate.
    usual_tasks: int = 8
    # Of tasks one after the other, what is lost at the end, in tasks (sixteen cores that others use
    # too stand idle for a third of two tasks each, for an eighth of four); and how long reading an
    # element takes from a cache that cores share, in the time of multiplying it.
    tail: float = 0.5
    reading: float = 12.0
    # With at most so many rows a copy of the other operand takes longer than it saves, if that lies
    # well: in vectors, and its rows so close together that several are on one page of memory. It is
    # read where it is, in blocks of so many sums at least; so with any number of rows side by side:
    # 512 x 128 sums of 2800 terms take half the time that they take with both packed.
    few_rows: int = 192
    close_bytes: int = 2048
    least_block: int = 128
    # Sums in up to so many blocks are just added up: that are few roundings. For more there are
    # totals, if the result is so much smaller than the factors that these take longer to read.
    few_blocks: int = 16
    small_result: int = 8
    # From so many turns on an outer loop is shared out rather than the tiles inside, since threads
    # have enough of them; from so many on it alone.
    enough_units: int = 16
    many_units: int = 64
    # Bytes of all columns that are packed together: about those of a tile of rows, which threads
    # take one by one as well.
    piece_bytes: int = 1 << 16


class NestLimits(Record):
    """How loops over vectors are emitted."""

    # Vectors worked on at once in the innermost loop, by the cost of its body.
    small_body: int = 24
    unroll_small: int = 4
    unroll_large: int = 1
    # Sums of little more than what is loaded: as many as are on their way through two adders.
    unroll_sums: int = 8
    # Long chains of instructions are interleaved, those of two vectors where they are not too many,
    # if there are so many registers for their values. More instructions than the last number take
    # too long to put in order.
    unroll_chains: int = 2
    most_chained: int = 1024
    enough_registers: int = 32
    most_ordered: int = 2000
    # Rows of up to so many vectors, whose ends overlap, are written out.
    most_written_out: int = 8
    # Squares of what is transposed are written out: so many expressions at most, and vectors of the
    # last loop.
    square_values: int = 1024
    square_vectors: int = 4


class LaneLimits(Record):
    """Factorisations that are generated, one lane a matrix; all others LAPACK is called for."""

    # Rows, and columns, of a matrix: a block of 16 x 16 takes half of a first-level cache.
    # Elimination of 6 rows takes a tenth of the time of LAPACK, of 16 rows a sixth.
    most_rows: int = 16
    # Matrices along one axis: fewer take no time at all.
    fewest: int = 16
    # Lanes of float64 that a vector must have: with two, LAPACK's own are as good.
    narrowest: int = 4


class CodeLimits(Record):
    """How much code is written out, by what it saves and what it costs LLVM."""

    # Small products: so many loads, multiply-adds and shuffles.
    product_steps: int = 768
    # Updates of small matrices: so many vectors, and values and stores in all of them together.
    flat_vectors: int = 48
    flat_values: int = 1024
    # How often a program has the code of an elementary function in line, before it is called.
    in_line: int = 16
    # Values that are computed outside of all loops: beyond so many LLVM is not to make the best of
    # code that runs once, which takes it most of its time and gains a fifth.
    most_straight: int = 1 << 13
    # Nests that together are at most this share of a program's work are compiled as they are
    # written. They may cost ten times what is estimated, and such code twice as much: on one thread
    # that is a hundredth of the time at worst.
    minor: float = 1e-3
    # So many values in a turn of a loop are computed in line, without calls between them: LLVM's
    # time for one long function grows faster than the function. Loops of nothing else keep what
    # they hand on in registers, of each array up to so many elements: what does not fit LLVM puts
    # on the stack, which costs what memory does.
    most_in_turn: int = 1 << 11
    # Nests of quick arithmetic on so few elements are written out there: less than a vector.
    most_quick: int = 4
    most_registers: int = 32


class Policy(Record):
    """All thresholds, by topic."""

    times: Times
    costs: CostLimits
    threads: ThreadLimits
    regions: RegionLimits
    matrices: MatrixLimits
    chunks: ChunkLimits
    scans: ScanLimits
    rewriting: RewritingLimits
    fusion: FusionLimits
    prologues: PrologueLimits
    products: ProductLimits
    nests: NestLimits
    lanes: LaneLimits
    code: CodeLimits

    def changed(self, **groups: dict[str, Any]) -> Policy:
        """The policy with some thresholds in place of others.

        >>> from wengert.machine import Machine
        >>> Machine().policy.changed(regions={"least_work": 0}).regions.least_work
        0
        """
        made = {name: getattr(self, name).replace(**new) for name, new in groups.items()}
        return self.replace(**made)


def policy_for(
    *, l1: int, l2: int, l3: int, operations: float, rates: tuple[float, float]
) -> Policy:
    """The thresholds for a machine: bytes of its caches for one core, and what it does in a
    microsecond, operations and bytes from the second-level cache and from beyond it."""
    near_bytes, far_bytes = rates
    return Policy(
        times=Times(operations=operations, near_bytes=near_bytes, far_bytes=far_bytes),
        costs=CostLimits(),
        threads=ThreadLimits(),
        regions=RegionLimits(
            most_weights=l2 // 2,  # the other half is for what the block itself computes
            most_value=l2,
            most_channel_value=l2 // 4,
            always_near=2 * l1,
            most_elements=l1 // 8,  # half of the cache, in float32
        ),
        matrices=MatrixLimits(second_level=2 * l2, most_weights=4 * l2),
        chunks=ChunkLimits(most_near=l2),
        scans=ScanLimits(most_kept_near=4 * l2, most_near=2 * l2, most_in_block=l2),
        rewriting=RewritingLimits(),
        fusion=FusionLimits(most_near=l1 // 32, most_kept=l3 // 16),
        prologues=PrologueLimits(large_bytes=l2 // 4),
        products=ProductLimits(),
        nests=NestLimits(),
        lanes=LaneLimits(),
        code=CodeLimits(),
    )
