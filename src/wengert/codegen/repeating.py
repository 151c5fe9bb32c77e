"""The native loop that calls a program again and again.

One small function serves all programs: it gets the address of the program's native function and its
table of buffers. After each call the addresses of the *moving* buffers go on by their strides, to
the next row of an argument or of a result. Nothing is copied, and the GIL is released once for all
calls.

    i32 repeat(main, buffers, arena, count, moving, slots, strides, done)

calls `main(buffers, arena)` until it fails or `count` calls are done. `slots` and `strides` are
arrays of `moving` numbers: which buffers go on after a call, and by how many bytes. The result is
the code of the last call; `done` gets the number of calls that succeeded.
"""

from __future__ import annotations

from .target import Target

REPEAT = "repeat"

_TEXT = """
target triple = "{triple}"

declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)

define i32 @{name}(ptr %main, ptr %buffers, ptr %arena, i64 %count,
                   i64 %moving, ptr %slots, ptr %strides, ptr %done) {{
start:
  %thread = call ptr @PyEval_SaveThread()
  br label %next
next:
  %number = phi i64 [ 0, %start ], [ %following, %advanced ]
  %more = icmp slt i64 %number, %count
  br i1 %more, label %call, label %leave
call:
  %code = call i32 %main(ptr %buffers, ptr %arena)
  %good = icmp eq i32 %code, 0
  br i1 %good, label %moved, label %leave
moved:
  %place = phi i64 [ 0, %call ], [ %after, %move ]
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
  %following = add i64 %number, 1
  br label %next
leave:
  %last = phi i32 [ 0, %next ], [ %code, %call ]
  store i64 %number, ptr %done
  call void @PyEval_RestoreThread(ptr %thread)
  ret i32 %last
}}
"""


def repeat_ir(target: Target) -> str:
    """The loop as LLVM IR."""
    return _TEXT.format(triple=target.triple, name=REPEAT)
