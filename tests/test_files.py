"""Files appear whole or not at all; links are not followed, pipes not waited for."""

import errno
import os
import socket
from pathlib import Path

import pytest

from oneword.errors import FileFormatError
from oneword.files import read_named, read_regular, replace_whole, write_whole


def test_an_interrupted_write_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_whole(tmp_path / "a", b"old")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "a", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


@pytest.mark.parametrize("name", ["none/a", ".", "folder", "zero\0byte", "x" * 300])
def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(FileFormatError, match="expected a place that can be written") as refused:
        write_whole(tmp_path / name, b"new")
    assert len(str(refused.value).splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_is_one_line_and_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    write_whole(tmp_path / "a", b"old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, step, full)
    with pytest.raises(FileFormatError, match="No space left on device"):
        write_whole(tmp_path / "a", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_the_umask_decides_who_may_read(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_whole(tmp_path / "mine", b"")
        os.umask(0o002)
        write_whole(tmp_path / "ours", b"")
    finally:
        os.umask(before)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("mine", "ours")] == [0o600, 0o664]


def test_a_link_is_replaced_and_what_it_points_to_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"victim")
    os.mkfifo(tmp_path / "pipe")
    for target in ("victim", "pipe", "nothing", "/dev/null"):
        link = tmp_path / "link"
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        write_whole(link, b"new")
        assert not link.is_symlink()
        assert link.read_bytes() == b"new"
    assert (tmp_path / "victim").read_bytes() == b"victim"
    assert (tmp_path / "pipe").is_fifo()
    assert not (tmp_path / "nothing").exists()


def test_a_folder_that_is_a_link_is_one_that_its_owner_made(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to("disk")
    write_whole(tmp_path / "out" / "a", b"new")
    assert (tmp_path / "disk" / "a").read_bytes() == b"new"


def test_a_pipe_that_somebody_reads_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileFormatError, match="a pipe that nobody reads"):
        write_whole(tmp_path / "pipe", b"waits for ever")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_whole(tmp_path / "pipe", b"through")
    assert os.read(reader, 20) == b"through"
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo()
    write_whole(Path("/dev/null"), b"gone")


@pytest.mark.parametrize("folder", ["/dev/fd", "/proc/self/fd", "/dev/../dev/fd"])
def test_an_open_descriptor_is_written_where_it_stands(tmp_path: Path, folder: str) -> None:
    """As `--json /dev/stdout >> log` means it: what the log holds already stays."""
    with (tmp_path / "log").open("w+b", buffering=0) as log:
        log.write(b"before ")
        write_whole(Path(folder) / str(log.fileno()), b"and after")
        log.write(b".")
    assert (tmp_path / "log").read_bytes() == b"before and after."


def test_a_file_of_our_own_replaces_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    replace_whole(tmp_path / "pipe", b"new")
    assert (tmp_path / "pipe").read_bytes() == b"new"


def test_only_regular_files_are_read_and_nothing_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to-pipe").symlink_to("pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
    assert read_regular(tmp_path / "file", 7, links=False) == b"content"
    assert read_regular(tmp_path / "link") == b"content"
    refused = {
        "folder": "a folder, not a file",
        "pipe": "a pipe, not a file",
        "to-pipe": "a pipe, not a file",
        "socket": "a socket, not a file",
        "/dev/zero": "a device, not a file",
        "zero\0byte": "embedded null byte",
    }
    for name, reason in refused.items():
        with pytest.raises(OSError, match=f"{reason}$"):
            read_regular(tmp_path / name)
    for name in ("link", "loop", "to-pipe"):
        with pytest.raises(OSError, match="a link, not a file"):
            read_regular(tmp_path / name, links=False)
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "none")
    with pytest.raises(IsADirectoryError):
        read_regular(tmp_path / "folder")


def test_a_file_larger_than_expected_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    for read in (read_regular, read_named):
        with pytest.raises(OSError, match="larger than 1,000 bytes"):
            read(tmp_path / "sparse", 1000)


def test_a_file_that_a_person_names_may_be_an_open_descriptor(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader):
        os.write(writer, b"through")
        os.close(writer)
        assert read_named(f"/dev/fd/{reader}", 100) == b"through"
    with Path("/dev/zero").open("rb") as endless, pytest.raises(OSError, match="larger than"):
        read_named(f"/dev/fd/{endless.fileno()}", 1000)
