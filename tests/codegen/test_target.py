"""The description of processors: what it says, what it refuses, what LLVM makes of it."""

import subprocess
import sys

import pytest

from wengert.codegen.target import Target, llvm

ADD_16_FLOATS = """
define void @twice(ptr %p) {
  %a = load <16 x float>, ptr %p, align 4
  %b = fadd <16 x float> %a, %a
  store <16 x float> %b, ptr %p, align 4
  ret void
}
define void @copy(ptr %p, ptr %q) {
  call void @llvm.memcpy.p0.p0.i64(ptr %p, ptr %q, i64 64, i1 0)
  ret void
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""


def assembly(target, text=ADD_16_FLOATS):
    binding = llvm()
    machine = binding.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=2, reloc="pic", codemodel="small"
    )
    return machine.emit_assembly(binding.parse_assembly(text))


@pytest.mark.parametrize(
    ("name", "width", "registers", "fma"),
    [
        ("x86-64", 16, 16, False),
        ("nehalem", 16, 16, False),
        ("sandybridge", 32, 16, False),
        ("haswell", 32, 16, True),
        ("x86-64-v3", 32, 16, True),
        ("x86-64-v4", 64, 32, True),
        ("skylake-avx512", 64, 32, True),
        ("znver4", 64, 32, True),
        ("apple-m1", 16, 32, True),
        ("neoverse-n1", 16, 32, True),
    ],
)
def test_named_targets_know_their_vector_unit(name, width, registers, fma):
    target = Target.named(name)
    assert (target.vector_bytes, target.vector_registers, target.has_fma) == (
        width,
        registers,
        fma,
    )
    assert target.lanes(4) == width // 4
    assert target.lanes(8) == width // 8


@pytest.fixture(autouse=True)
def no_override(monkeypatch):
    monkeypatch.delenv("WENGERT_CPU", raising=False)


def widest_register(text):
    used = [width for kind, width in (("xmm", 16), ("ymm", 32), ("zmm", 64)) if f"%{kind}" in text]
    return max(used, default=0)


@pytest.mark.parametrize("name", Target.names())
def test_every_named_target_generates_its_own_vectors(name):
    target = Target.named(name)
    text = assembly(target)
    if target.architecture == "aarch64":
        assert "fadd" in text
        assert widest_register(text) == 0
    else:
        assert widest_register(text) == target.vector_bytes


@pytest.mark.parametrize("name", ["skylake-avx512", "sapphirerapids"])
def test_avx512_is_used_at_full_width_even_where_llvm_prefers_half(name):
    """The feature list alone must do it: `copy` has no vector type that would force the width."""
    full = assembly(Target.named(name))
    assert "zmm" in full.split("copy:")[1]
    binding = llvm()
    halved = (
        binding.Target.from_triple(Target.named(name).triple)
        .create_target_machine(cpu=name, features="", opt=2)
        .emit_assembly(binding.parse_assembly(ADD_16_FLOATS))
    )
    assert "zmm" not in halved.split("copy:")[1]


def test_host_runs_here_and_is_computed_once():
    host = Target.host()
    assert host is Target.host()
    assert host.runs_here()
    assert host.vector_bytes in (16, 32, 64)
    assert 4 * 1024 <= host.l1d_bytes <= 1 << 20
    assert host.l1d_bytes < host.l2_bytes <= 1 << 28
    assert host.cpu in str(host)


def test_the_other_architecture_does_not_run_here():
    other = "apple-m1" if Target.host().architecture == "x86_64" else "haswell"
    assert not Target.named(other).runs_here()
    assert Target.named(other).missing_here() == (Target.named(other).architecture,)


def test_wengert_cpu_overrides_the_host(monkeypatch):
    machine = Target.host()
    runnable = [name for name in Target.names() if Target.named(name).runs_here()]
    assert runnable
    monkeypatch.setenv("WENGERT_CPU", runnable[0])
    chosen = Target.host()
    assert chosen.vector_bytes == Target.named(runnable[0]).vector_bytes
    assert (chosen.l1d_bytes, chosen.l2_bytes) == (machine.l1d_bytes, machine.l2_bytes)
    monkeypatch.setenv("WENGERT_CPU", "host")
    assert Target.host() == machine


def test_wengert_cpu_unknown_name_lists_the_choices(monkeypatch):
    monkeypatch.setenv("WENGERT_CPU", "pentium")
    with pytest.raises(ValueError) as caught:
        Target.host()
    names = ", ".join(Target.names())
    assert str(caught.value) == (
        f"environment variable WENGERT_CPU: got 'pentium', expected one of host, {names}"
    )


def test_wengert_cpu_that_cannot_run_here_is_refused(monkeypatch):
    other = "apple-m1" if Target.host().architecture == "x86_64" else "haswell"
    monkeypatch.setenv("WENGERT_CPU", other)
    with pytest.raises(ValueError, match=f"got '{other}', whose code needs .* this machine lacks"):
        Target.host()


def test_named_refuses_unknown_names():
    with pytest.raises(ValueError, match=r"^Target.named: argument name: got 'z80', expected one"):
        Target.named("z80")


def test_importing_the_folder_does_not_import_llvmlite():
    program = (
        "import sys, wengert.codegen.target, wengert.codegen.compile, wengert.codegen.cache, "
        "wengert.codegen.pool, wengert.runtime.threads\n"
        "assert not [name for name in sys.modules if name.startswith('llvmlite')]"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
