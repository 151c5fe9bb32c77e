"""Counts every allocation of a process: run as a program, by `test_allocations.py`.

All loaded libraries reach `malloc` and its kin through tables of addresses that the dynamic linker
has filled in. Here these are made to point to counting functions, generated on the spot, which call
the real ones. For ELF systems.
"""

import ctypes
import ctypes.util
import itertools
import json
import mmap
import os
import tracemalloc

import numpy as np

import wengert as wg
import wengert.numpy as wnp
from wengert.codegen.compile import compile_module

# what an allocation's size is computed from: the numbers of the arguments
SIZES = {"malloc": [0], "calloc": [0, 1], "realloc": [1], "aligned_alloc": [1]}
KINDS = {"malloc": "i64", "calloc": "i64, i64", "realloc": "ptr, i64", "aligned_alloc": "i64, i64"}
PT_DYNAMIC = 2
STRTAB, SYMTAB, RELA, RELASZ, PLTRELSZ, JMPREL = 5, 6, 7, 8, 2, 23
SLOTS = {1, 6, 7, 257, 1025, 1026}  # kinds of relocation that hold a plain address


class Header(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        *((name, ctypes.c_uint64) for name in "offset vaddr paddr filesz memsz align".split()),
    )


class Loaded(ctypes.Structure):
    _fields_ = (
        ("base", ctypes.c_uint64),
        ("name", ctypes.c_char_p),
        ("headers", ctypes.POINTER(Header)),
        ("count", ctypes.c_uint16),
    )


def words(address, count):
    return (ctypes.c_uint64 * count).from_address(address)


def tables(loaded):
    """The dynamic section of a library, with addresses made absolute."""
    for header in loaded.headers[: loaded.count]:
        if header.type == PT_DYNAMIC:
            found = words(loaded.base + header.vaddr, header.memsz // 8)
            entries = dict(zip(found[::2], found[1::2], strict=True))
            for tag in (STRTAB, SYMTAB, RELA, JMPREL):
                if 0 < entries.get(tag, 0) < loaded.base:
                    entries[tag] += loaded.base
            return entries
    return {}


def slots(loaded):
    """Names and places of the addresses that the linker has filled in."""
    entries = tables(loaded)
    for table, size in ((RELA, RELASZ), (JMPREL, PLTRELSZ)):
        if not (entries.get(table) and entries.get(size)):
            continue
        found = words(entries[table], entries[size] // 8)
        for place, info in zip(found[::3], found[1::3], strict=True):
            if info & 0xFFFFFFFF in SLOTS and info >> 32:
                name = ctypes.c_uint32.from_address(entries[SYMTAB] + 24 * (info >> 32)).value
                yield ctypes.string_at(entries[STRTAB] + name).decode(), loaded.base + place


def counting_functions():
    # Of the library itself: asked for by its name, a function may be an entry in one of the tables.
    library = ctypes.CDLL(ctypes.util.find_library("c"))
    text = ["@calls = global i64 0", "@bytes = global i64 0"]
    for name, sizes in SIZES.items():
        kinds = KINDS[name].split(", ")
        size = "%a0" if sizes == [0] else "%a1" if sizes == [1] else "%product"
        product = "%product = mul i64 %a0, %a1" if sizes == [0, 1] else ""
        arguments = ", ".join(f"{kind} %a{n}" for n, kind in enumerate(kinds))
        real = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        text.append(f"""
            define ptr @counting_{name}({arguments}) {{
              {product}
              %c = atomicrmw add ptr @calls, i64 1 monotonic
              %b = atomicrmw add ptr @bytes, i64 {size} monotonic
              %found = call ptr inttoptr (i64 {real} to ptr)({arguments})
              ret ptr %found
            }}""")
    return compile_module("\n".join(text))


def install(code):
    """Point every library's table at the counting functions."""
    libc = ctypes.CDLL(None)
    page = mmap.PAGESIZE

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Loaded), ctypes.c_size_t, ctypes.c_void_p)
    def visit(loaded, size, data):
        name = (loaded.contents.name or b"").decode()
        if "vdso" in name or "/ld-" in name or "/libc.so" in name or "/libc-" in name:
            return 0
        for symbol, place in slots(loaded.contents):
            if symbol in SIZES:
                start = place // page * page
                libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(page), 3)
                words(place, 1)[0] = code.address(f"counting_{symbol}")
        return 0

    libc.dl_iterate_phdr(visit, None)


def counted(counters, call, times=1000):
    """Calls of malloc and bytes for so many calls, and what tracemalloc sees at its peak."""
    for _ in itertools.repeat(None, 100):
        call()
    before = [count.value for count in counters]
    for _ in itertools.repeat(None, times):
        call()
    calls, size = (count.value - start for count, start in zip(counters, before, strict=True))
    tracemalloc.start()
    call()
    tracemalloc.reset_peak()
    start, _ = tracemalloc.get_traced_memory()
    for _ in itertools.repeat(None, times):
        call()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {"calls": calls, "bytes": size, "traced": peak - start}


def training_step():
    """A network of two layers with momentum, all of it state."""
    rng = np.random.default_rng(0)
    weights = [wg.tensor(rng.normal(size=(64, 64)) / 8, requires_grad=True) for _ in range(2)]
    moving = [wg.tensor(np.zeros((64, 64))) for _ in weights]

    @wg.jit
    def step(x, y):
        for w in weights:
            w.grad = None
        loss = wnp.mean((wnp.tanh(x @ weights[0]) @ weights[1] - y) ** 2)
        loss.backward()
        with wg.no_grad():
            for w, v in zip(weights, moving, strict=True):
                v[...] = 0.9 * v + w.grad
                w -= 0.01 * v
        return loss

    return step, (rng.normal(size=(256, 64)), rng.normal(size=(256, 64)))


def main():
    x, large = np.arange(1000.0), np.arange(1 << 21, dtype=float)
    one = wg.jit(lambda x: wnp.sin(x) + wnp.sum(x))
    both = wg.jit(wg.value_and_grad(lambda p: wnp.sum(p["a"] * p["b"][0] ** 2)))
    tree = {"a": x, "b": [x]}
    out, outs = np.empty_like(x), (np.empty(()), {"a": np.empty_like(x), "b": [np.empty_like(x)]})
    much = np.empty_like(large)
    step, data = training_step()
    loss = np.empty(())
    cases = {
        "out": lambda: one(x, out=out),
        "out, a tree": lambda: both(tree, out=outs),
        "out, in parallel": lambda: one(large, out=much),
        "a training step": lambda: step(*data, out=loss),
        "a loss": lambda: step(*data),
        "a result": lambda: one(x),
        "two results": lambda: both(tree),
        "a bytearray": lambda: bytearray(1000),
    }
    for call in cases.values():
        call()
    code = counting_functions()
    counters = [ctypes.c_int64.from_address(code.address(name)) for name in ("calls", "bytes")]
    install(code)
    few = {"out, in parallel": 20, "a training step": 100, "a loss": 100}
    report = {name: counted(counters, f, few.get(name, 1000)) for name, f in cases.items()}
    print(json.dumps(report), flush=True)
    os._exit(0)  # the counting functions would go before the last allocation does


if __name__ == "__main__":
    main()
