"""LLVM IR to object code to callable addresses.

Object code comes first and is loaded second, so that its bytes can be kept on disk:
`compile_module` turns IR into an *image* (the object file with the names that it defines and
needs), and `load_image` makes an image callable, whether just compiled or read from the cache.

An ORC JIT loads many images, each as a library with names of its own. Loading an object into it
costs a tenth of what an MCJIT engine per module does, because no target machine is made for it. It
keeps some 10 kB of every library until it is gone itself; so a new one follows after `LIBRARIES`,
and the old one goes with the last of its libraries. What an image needs is found, in this order,
among the symbols given with it, among those registered with `add_symbol`, and in the process
itself; it is looked for before linking, so that a missing name is reported as such.

The generated code is explicit about vectors and unrolling, so LLVM's optimiser is not run.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import struct
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..runtime import lapack, numpy_loops
from .target import Target, llvm

if TYPE_CHECKING:
    from .cache import ObjectCache

_MAGIC = b"WGIMAGE1"
_SIZES = struct.Struct("<II")  # bytes of the exported and of the needed names
# Libraries of one JIT: to make another costs as much as two of them.
LIBRARIES = 64
ENTRY_PREFIX = "wengert_entry_"  # of the names of what entries call; see `gate`
_registered: dict[str, int] = {}
_library_numbers = itertools.count()
_jit: Any = None
_jit_lock = threading.Lock()


class Compiled:
    """Object code and, once an address is asked for, its place in memory.

    The code stays in memory as long as this object lives: whoever keeps an address must keep the
    object too. Functions made by `function` do.
    """

    def __init__(
        self,
        image: bytes,
        target: Target,
        symbols: Mapping[str, int] | None = None,
        *,
        text: str | None = None,
        level: int = 2,
        from_cache: bool = False,
    ):
        self.image = image
        self.target = target
        self.from_cache = from_cache
        self.exports, self.needs, self.object_code = _unpack(image)
        self._symbols = dict(symbols or {})
        self._text = text
        self._level = level
        self._library: Any = None
        self._link_lock = threading.Lock()

    def address(self, name: str) -> int:
        """Return the address of the function or global `name`; the first call links the code."""
        if name not in self.exports:
            known = ", ".join(self.exports) or "nothing"
            raise KeyError(f"Compiled.address: got {name!r}, but the module defines {known}")
        with self._link_lock:
            if self._library is None:
                self._library = _link(self, self._symbols)
        return int(self._library[name])

    def function(self, name: str, result: Any, *arguments: Any) -> Any:
        """Return `name` as a ctypes function; it keeps the code in memory while it is in use."""
        function = ctypes.CFUNCTYPE(result, *arguments)(self.address(name))
        function.compiled = self  # type: ignore[attr-defined]
        return function

    def assembly(self) -> str:
        """Return the code as assembly text, generated anew from the IR it came from."""
        if self._text is None:
            raise ValueError(
                "Compiled.assembly: this code was loaded without its LLVM IR; "
                "compile it with compile_module to see its assembly"
            )
        with _Parsed(self._text) as module:
            assembly: str = _target_machine(self.target, self._level).emit_assembly(module)
        return assembly


def compile_module(
    module: Any,
    target: Target | None = None,
    *,
    symbols: Mapping[str, int] | None = None,
    cache: ObjectCache | None = None,
    level: int = 2,
) -> Compiled:
    """Compile LLVM IR, given as text or as anything whose `str` is IR, for `target`.

    `symbols` gives addresses of external names for this module alone. With a `cache`, code that was
    compiled before from the same text for the same processor is taken from it. `level` is how hard
    instruction selection, scheduling and register allocation try, from 0 to 3: 0 is quick for
    scalar code that need not be fast, and neither quick nor fast for wide vectors.
    """
    if level not in (0, 1, 2, 3):
        raise ValueError(f"compile_module: argument level: got {level!r}, expected 0, 1, 2 or 3")
    text = module if isinstance(module, str) else str(module)
    target = target or Target.host()
    key = ""
    if cache is not None:
        from .cache import cache_key

        key = cache_key("image", target.key(), level, text)
    image = cache.get(key) if cache is not None else None
    from_cache = image is not None
    if image is None:
        image = _compile_image(text, target, level)
        if cache is not None:
            cache.put(key, image)
    return Compiled(image, target, symbols, text=text, level=level, from_cache=from_cache)


def compile_here(make: Callable[[Target], Any], **options: Any) -> Compiled:
    """Compile what `make` gives for the machine in front of us: code of the process, not of a
    program. Options are those of `compile_module`."""
    target = Target.host()
    return compile_module(make(target), target, **options)


def load_image(
    image: bytes, target: Target | None = None, symbols: Mapping[str, int] | None = None
) -> Compiled:
    """Make the image of an earlier `compile_module` callable again.

    Images are trusted like any program: they must come from an integrity-checked place.
    """
    return Compiled(image, target or Target.host(), symbols, from_cache=True)


def add_symbol(name: str, address: int) -> None:
    """Let code linked from now on find `name` at `address`."""
    if address <= 0:
        raise ValueError(
            f"add_symbol: argument address of {name!r}: got {address}, expected a positive address"
        )
    _registered[name] = address
    llvm().add_symbol(name, address)


def _compile_image(text: str, target: Target, level: int) -> bytes:
    with _Parsed(text) as module:
        try:
            module.verify()
        except RuntimeError as error:
            raise _invalid(error) from None
        return _pack(*_names(module), _target_machine(target, level).emit_object(module))


def _invalid(error: Exception) -> ValueError:
    return ValueError(f"compile_module: argument module is not valid LLVM IR: {error}")


class _Parsed:
    """IR parsed into an LLVM context of its own: the shared one would grow with every module."""

    def __init__(self, text: str):
        binding = llvm()
        self.context = binding.create_context()
        try:
            self.module = binding.parse_assembly(text, context=self.context)
        except RuntimeError as error:
            self.context.close()
            raise _invalid(error) from None

    def __enter__(self) -> Any:
        return self.module

    def __exit__(self, *_: object) -> None:
        self.module.close()
        self.context.close()


def _names(module: Any) -> tuple[list[str], list[str]]:
    """Return the names that `module` offers to others and those that it needs from them."""
    linkage = llvm().Linkage
    exports, needs = [], []
    for value in itertools.chain(module.functions, module.global_variables):
        if value.is_declaration:
            if not value.name.startswith("llvm."):
                needs.append(value.name)
        elif value.linkage not in (linkage.internal, linkage.private):
            exports.append(value.name)
    return exports, needs


@functools.lru_cache(maxsize=16)
def _target_machine(target: Target, level: int = 2) -> Any:
    # The small code model reaches constants relative to the program counter; what is further away
    # goes through stubs that the linker makes. The large one would load every address as 64 bits.
    return (
        llvm()
        .Target.from_triple(target.triple)
        .create_target_machine(
            cpu=target.cpu, features=target.features, opt=level, reloc="pic", codemodel="small"
        )
    )


def _new_jit() -> Any:
    # JITLink places GOT and stubs for position-independent code; for Windows' object format LLVM
    # still recommends the older linker.
    return llvm().create_lljit_compiler(
        _target_machine(Target.host()), use_jit_link=os.name != "nt", suppress_errors=True
    )


def _link(compiled: Compiled, symbols: Mapping[str, int]) -> Any:
    missing = compiled.target.missing_here()
    if missing:
        raise ValueError(
            f"Compiled.address: the code is for {compiled.target.cpu}, which needs "
            f"{', '.join(missing)}; this machine can generate it but not run it"
        )
    builder = llvm().JITLibraryBuilder().add_object_img(compiled.object_code)
    if any(name.startswith("wengert_parallel_for") for name in compiled.needs):
        from . import pool  # which is itself compiled here
        from .cache import shared_cache

        pool.load(shared_cache())
    if any(name.startswith(ENTRY_PREFIX) for name in compiled.needs):
        from . import gate

        gate.load()
    for name in compiled.needs:
        address = symbols.get(name) or _registered.get(name)
        for library in (lapack, numpy_loops):
            if address is None and name.startswith(library.PREFIX):
                address = library.address(name)
        if address:
            builder.import_symbol(name, address)
        elif not _in_process(name):
            raise LookupError(
                f"Compiled.address: the code calls {name!r}, which is neither in this process nor "
                "registered; pass it in symbols= or register it with add_symbol"
            )
    builder.add_current_process()
    for name in compiled.exports:
        builder.export_symbol(name)
    global _jit
    with _jit_lock:
        number = next(_library_numbers)
        if _jit is None or number % LIBRARIES == 0:
            _jit = _new_jit()  # libraries keep the one before in memory
        return builder.link(_jit, f"wengert.{number}")


def _in_process(name: str) -> bool:
    return hasattr(_process(), name) if os.name == "posix" else True


@functools.cache
def _process() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def _pack(exports: list[str], needs: list[str], code: bytes) -> bytes:
    offered, needed = "\0".join(exports).encode(), "\0".join(needs).encode()
    return _MAGIC + _SIZES.pack(len(offered), len(needed)) + offered + needed + code


def _unpack(image: bytes) -> tuple[list[str], list[str], bytes]:
    start = len(_MAGIC) + _SIZES.size
    if len(image) < start or not image.startswith(_MAGIC):
        raise ValueError(
            "load_image: argument image: got bytes that are no image, expected those of "
            "Compiled.image; compile the module again"
        )
    offered, needed = _SIZES.unpack_from(image, len(_MAGIC))
    middle, end = start + offered, start + offered + needed

    def names(part: bytes) -> list[str]:
        return part.decode().split("\0") if part else []

    return names(image[start:middle]), names(image[middle:end]), image[end:]
