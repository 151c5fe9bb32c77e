"""The native loop that calls programs again and again.

One small function serves all programs: it gets a record for each program that is called in a turn,
with the address of its native function and its table of buffers. After each call the addresses of
the *moving* buffers go on by their strides, to the next row of an argument or of a result. Nothing
is copied, and the GIL is released once for all calls.

    i32 repeat(calls, many, count, done)

makes `count` turns or fewer, each of `many` calls `main(buffers, arena)` in order, until one fails.
A record has six words: main, buffers, arena, how many buffers move, and the addresses of two arrays
of so many numbers: which buffers go on after a call, and by how many bytes. The result is the code
of the last call; `done` gets the number of turns that succeeded, and that of the call that failed.
"""

from __future__ import annotations

from .target import Target

REPEAT = "repeat"

_TEXT = """
target triple = "{triple}"

declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)

define i32 @{name}(ptr %calls, i64 %many, i64 %count, ptr %done) {{
start:
  %thread = call ptr @PyEval_SaveThread()
  br label %next
next:
  %number = phi i64 [ 0, %start ], [ %following, %turned ]
  %more = icmp slt i64 %number, %count
  br i1 %more, label %turn, label %leave
turn:
  %which = phi i64 [ 0, %next ], [ %other, %advanced ]
  %record = getelementptr [6 x i64], ptr %calls, i64 %which
  %main = load ptr, ptr %record
  %buffers.at = getelementptr i64, ptr %record, i64 1
  %buffers = load ptr, ptr %buffers.at
  %arena.at = getelementptr i64, ptr %record, i64 2
  %arena = load ptr, ptr %arena.at
  %moving.at = getelementptr i64, ptr %record, i64 3
  %moving = load i64, ptr %moving.at
  %slots.at = getelementptr i64, ptr %record, i64 4
  %slots = load ptr, ptr %slots.at
  %strides.at = getelementptr i64, ptr %record, i64 5
  %strides = load ptr, ptr %strides.at
  %code = call i32 %main(ptr %buffers, ptr %arena)
  %good = icmp eq i32 %code, 0
  br i1 %good, label %moved, label %leave
moved:
  %place = phi i64 [ 0, %turn ], [ %after, %move ]
  %left = icmp slt i64 %place, %moving
  br i1 %left, label %move, label %advanced
move:
  %slot.at = getelementptr i64, ptr %slots, i64 %place
  %slot = load i64, ptr %slot.at
  %stride.at = getelementptr i64, ptr %strides, i64 %place
  %stride = load i64, ptr %stride.at
  %address.at = getelementptr i64, ptr %buffers, i64 %slot
  %address = load i64, ptr %address.at
  %row = add i64 %address, %stride
  store i64 %row, ptr %address.at
  %after = add i64 %place, 1
  br label %moved
advanced:
  %other = add i64 %which, 1
  %again = icmp slt i64 %other, %many
  br i1 %again, label %turn, label %turned
turned:
  %following = add i64 %number, 1
  br label %next
leave:
  %last = phi i32 [ 0, %next ], [ %code, %turn ]
  %failed = phi i64 [ 0, %next ], [ %which, %turn ]
  store i64 %number, ptr %done
  %failed.at = getelementptr i64, ptr %done, i64 1
  store i64 %failed, ptr %failed.at
  call void @PyEval_RestoreThread(ptr %thread)
  ret i32 %last
}}
"""


def repeat_ir(target: Target) -> str:
    """The loop as LLVM IR."""
    return _TEXT.format(triple=target.triple, name=REPEAT)
