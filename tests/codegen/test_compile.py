"""From IR text to running code: naming, linking, caching, freeing, and clear refusals."""

import ctypes
import gc
import threading
import weakref
from pathlib import Path

import pytest

from wengert.codegen import compile as compile_module_
from wengert.codegen.cache import ObjectCache
from wengert.codegen.compile import add_symbol, compile_module, load_image
from wengert.codegen.target import Target

TWICE = """
@factor = global i64 2
@hidden = internal constant [2 x i64] [i64 0, i64 5]
define i64 @twice(i64 %x) {
  %f = load i64, ptr @factor
  %y = mul i64 %x, %f
  ret i64 %y
}
define i64 @five() {
  %p = getelementptr i64, ptr @hidden, i64 1
  %v = load i64, ptr %p
  ret i64 %v
}
define internal void @local() {
  ret void
}
"""
CALLS_OUT = """
declare i64 @wengert_test_outside(i64)
define i64 @call(i64 %x) {
  %y = call i64 @wengert_test_outside(i64 %x)
  ret i64 %y
}
"""
INTEGER = ctypes.c_int64
UNARY = ctypes.CFUNCTYPE(INTEGER, INTEGER)


def address_of(callback):
    return ctypes.cast(callback, ctypes.c_void_p).value


def test_functions_and_globals_have_addresses():
    compiled = compile_module(TWICE)
    assert sorted(compiled.exports) == ["factor", "five", "twice"]
    assert compiled.needs == []
    twice = compiled.function("twice", INTEGER, INTEGER)
    assert twice(21) == 42
    assert compiled.function("five", INTEGER)() == 5
    ctypes.c_int64.from_address(compiled.address("factor")).value = 3
    assert twice(21) == 63
    other = compile_module(TWICE)
    assert other.function("twice", INTEGER, INTEGER)(21) == 42


def test_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(KeyError) as caught:
        compile_module(TWICE).address("thrice")
    assert caught.value.args == (
        "Compiled.address: got 'thrice', but the module defines twice, five, factor",
    )


def test_anything_that_prints_as_ir_is_accepted():
    class Printed:
        def __str__(self):
            return TWICE

    assert compile_module(Printed()).function("twice", INTEGER, INTEGER)(4) == 8


def test_invalid_ir_is_refused():
    with pytest.raises(
        ValueError, match=r"argument module is not valid LLVM IR: [^$]*expected type"
    ):
        compile_module("define nonsense")
    with pytest.raises(ValueError, match="argument module is not valid LLVM IR"):
        compile_module("define i64 @f() {\n  ret i32 0\n}")


def test_ir_that_parses_but_breaks_the_rules_is_refused():
    self_feeding = "define void @f() {\n  %x = add i64 %y, 1\n  %y = add i64 1, 1\n  ret void\n}"
    with pytest.raises(ValueError, match=r"is not valid LLVM IR: .*does not dominate"):
        compile_module(self_feeding)


def test_unknown_options_are_refused():
    message = "argument level: got 7, expected 0, 1, 2 or 3"
    with pytest.raises(ValueError, match=f"^compile_module: {message}$"):
        compile_module(TWICE, level=7)


def test_symbols_given_with_the_module_come_first():
    plus, times = UNARY(lambda x: x + 1), UNARY(lambda x: x * 10)
    add_symbol("wengert_test_outside", address_of(plus))
    try:
        registered = compile_module(CALLS_OUT)
        assert registered.needs == ["wengert_test_outside"]
        assert registered.function("call", INTEGER, INTEGER)(7) == 8
        given = compile_module(CALLS_OUT, symbols={"wengert_test_outside": address_of(times)})
        assert given.function("call", INTEGER, INTEGER)(7) == 70
    finally:
        del compile_module_._registered["wengert_test_outside"]


def test_a_missing_symbol_is_named():
    with pytest.raises(LookupError) as caught:
        compile_module(CALLS_OUT).address("call")
    assert str(caught.value) == (
        "Compiled.address: the code calls 'wengert_test_outside', which is neither in this process "
        "nor registered; pass it in symbols= or register it with add_symbol"
    )
    with pytest.raises(ValueError, match="address of 'nothing': got 0, expected a positive"):
        add_symbol("nothing", 0)


def test_the_process_provides_its_own_symbols():
    text = """
    declare double @pow(double, double)
    define double @cube(double %x) {
      %y = call double @pow(double %x, double 3.0)
      ret double %y
    }
    define double @rest(double %x, double %y) {
      %r = frem double %x, %y
      ret double %r
    }
    """
    compiled = compile_module(text)
    assert compiled.function("cube", ctypes.c_double, ctypes.c_double)(2.0) == 8.0
    rest = compiled.function("rest", ctypes.c_double, ctypes.c_double, ctypes.c_double)
    assert rest(7.5, 2.0) == 1.5


def test_an_image_is_loaded_without_the_ir():
    image = compile_module(TWICE).image
    loaded = load_image(bytes(image))
    assert loaded.function("twice", INTEGER, INTEGER)(5) == 10
    with pytest.raises(ValueError, match="loaded without its LLVM IR"):
        loaded.assembly()
    with pytest.raises(ValueError, match="got bytes that are no image"):
        load_image(b"\x7fELF and so on")


def test_the_cache_replaces_compilation(tmp_path):
    cache = ObjectCache(tmp_path / "cache")
    first = compile_module(TWICE, cache=cache)
    assert not first.from_cache
    second = compile_module(TWICE, cache=cache)
    assert second.from_cache
    assert second.image == first.image
    assert second.function("twice", INTEGER, INTEGER)(5) == 10
    assert "twice" in second.assembly()
    for different in (
        compile_module(TWICE, level=0, cache=cache),
        compile_module(TWICE, Target.named("x86-64"), cache=cache),
        compile_module(TWICE.replace("i64 5", "i64 6"), cache=cache),
    ):
        assert not different.from_cache


@pytest.mark.parametrize("name", Target.names())
def test_every_target_compiles_and_runs_where_it_can(name):
    target = Target.named(name)
    compiled = compile_module(TWICE, target)
    assert compiled.object_code
    if target.runs_here():
        assert compiled.function("twice", INTEGER, INTEGER)(21) == 42
    else:
        with pytest.raises(ValueError, match="this machine can generate it but not run it"):
            compiled.address("twice")


def test_a_function_keeps_its_code_alive_and_its_end_frees_it():
    compiled = compile_module(TWICE)
    alive = weakref.ref(compiled)
    twice = compiled.function("twice", INTEGER, INTEGER)
    library = compiled._library
    del compiled
    gc.collect()
    assert twice(8) == 16
    assert not library.closed
    del library, twice
    gc.collect()
    assert alive() is None


def mapped_pages():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0])


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_freed_code_returns_its_memory():
    text = "@room = global [4194304 x i8] zeroinitializer\n" + TWICE
    image = compile_module(text).image
    load_image(image).address("twice")
    before = mapped_pages()
    for _ in range(20):
        load_image(image).address("twice")
    assert (mapped_pages() - before) * 4096 < 20 << 20


def test_several_threads_compile_at_once():
    results = []

    def work(number):
        for step in range(5):
            text = TWICE.replace("i64 2", f"i64 {number}").replace("i64 5", f"i64 {step}")
            compiled = compile_module(text)
            results.append(
                compiled.function("twice", INTEGER, INTEGER)(10) == 10 * number
                and compiled.function("five", INTEGER)() == step
            )

    threads = [threading.Thread(target=work, args=(number,)) for number in range(13, 17)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 20
