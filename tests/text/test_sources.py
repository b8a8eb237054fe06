"""The network: asked for nothing unless a hub name is given, given up after the preflight, and never trusted."""

import http.server
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from oneword.errors import FileFormatError, HubError, MissingExtraError, OnewordError
from oneword.text import sources
from oneword.text.corpora import Corpus
from oneword.text.encoders import Encoder
from oneword.text.sources import MINILM, REVIEWS, Package
from tests.text.tiny_bert import needs_minilm, needs_reviews, write_tiny

hub = pytest.importorskip("huggingface_hub")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """The hub is at this address, and nothing of it is on the disk."""
    real = hub.snapshot_download

    def move(address: str) -> None:
        monkeypatch.setattr(hub.constants, "ENDPOINT", address)
        monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(
            hub, "snapshot_download", lambda *args, **options: real(*args, cache_dir=tmp_path / "hub", **options)
        )

    for proxy in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(proxy, raising=False)
        monkeypatch.delenv(proxy.upper(), raising=False)
    return move


@pytest.fixture
def silent() -> Iterator[str]:
    """A host that takes calls and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def closed() -> str:
    """A port that nobody listens to."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def forbidding() -> Iterator[str]:
    """A hub that is there, and has nothing to give."""

    class Refuse(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_error(403)

        do_GET = do_HEAD

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refuse) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def assert_hub_error(match: str, act: Callable[[], object], error: type[OnewordError] = HubError) -> None:
    with pytest.raises(error, match=match) as caught:
        act()
    assert "\n" not in str(caught.value)


def test_a_hub_that_nobody_answers_for_is_named_with_the_remedy(at: Callable[[str], None], closed: str) -> None:
    at(closed)
    assert_hub_error(
        "'bert-base-uncased', got none .*refused.*: give the folder of a", lambda: Encoder.load("bert-base-uncased")
    )


def test_a_hub_that_says_nothing_is_given_up_after_the_preflight(
    at: Callable[[str], None], silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(silent)
    assert sources.PREFLIGHT_SECONDS == 3
    monkeypatch.setattr(sources, "PREFLIGHT_SECONDS", 0.2)
    started = time.monotonic()
    assert_hub_error("no answer in 0.2 s|timed out", lambda: sources.reach_hub("x", "y"))
    assert time.monotonic() - started < 2


def test_the_time_a_host_name_takes_counts_too(at: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    at("http://hub.invalid")
    monkeypatch.setattr(sources, "PREFLIGHT_SECONDS", 0.2)

    def search(*_: object, **__: object) -> None:
        time.sleep(1)
        raise OSError("not found")

    monkeypatch.setattr(socket, "getaddrinfo", search)
    assert_hub_error("no answer in 0.2 s", lambda: sources.reach_hub("x", "y"))


def test_a_hub_that_refuses_is_there_and_its_refusal_is_one_line(at: Callable[[str], None], forbidding: str) -> None:
    at(forbidding)
    sources.reach_hub("x", "y")
    assert_hub_error("'some/model' from the hub, got .*: give the folder", lambda: Encoder.load("some/model"))


def test_offline_mode_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(socket, "socket", lambda *_, **__: pytest.fail("went to the network"))
    assert_hub_error("HF_HUB_OFFLINE", lambda: sources.reach_hub("x", "y"))


@needs_minilm
@needs_reviews
def test_what_is_here_needs_no_network_and_runs_no_code_of_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, lambda *_, **__: pytest.fail("went to the network"))
    for name in (MINILM.module, REVIEWS.module):  # another test may have run their code
        monkeypatch.delitem(sys.modules, name, raising=False)
    Encoder.load("minilm")
    Encoder.load(str(write_tiny(tmp_path / "tiny")))
    Corpus.load()
    (tmp_path / "mine.txt").write_text("good film\n")
    Corpus.load(str(tmp_path / "mine.txt"))
    assert not {MINILM.module, REVIEWS.module} & set(sys.modules)


def fake_hub(folder: Path, asked: list[dict[str, object]], *, held: bool) -> Callable[..., str]:
    def snapshot_download(name: str, **options: object) -> str:
        asked.append({"name": name, **options})
        if options.get("local_files_only") and not held:
            raise FileNotFoundError("not on the disk")
        return str(folder)

    return snapshot_download


@pytest.mark.parametrize("held", [False, True])
def test_a_hub_name_is_downloaded_once_as_safetensors_with_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: bool
) -> None:
    asked: list[dict[str, object]] = []
    reached: list[str] = []
    folder = write_tiny(tmp_path / COMMIT)
    monkeypatch.setattr(hub, "snapshot_download", fake_hub(folder, asked, held=held))
    monkeypatch.setattr(sources, "reach_hub", lambda name, _: reached.append(name))
    encoder = Encoder.load("some/model", revision="v1")
    assert (encoder.name, encoder.revision) == ("some/model", COMMIT)
    assert reached == ([] if held else ["some/model"])
    files = ["config.json", "tokenizer.json", "*.safetensors"]
    # Files that a repository need not have.
    optional = ["1_Pooling/config.json", "model.safetensors.index.json", "chat_template.jinja", "tokenizer_config.json"]
    assert [request["allow_patterns"] for request in asked] == ([files] if held else [files, optional, files])
    for request in asked:
        assert request["revision"] == "v1"
        assert "trust_remote_code" not in request


def test_a_half_downloaded_model_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, object]] = []
    folder = write_tiny(tmp_path / COMMIT)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    monkeypatch.setattr(hub, "snapshot_download", fake_hub(folder, asked, held=True))
    monkeypatch.setattr(sources, "reach_hub", lambda *_: None)
    assert_hub_error("a pickle, which is never read", lambda: Encoder.load("some/model"), FileFormatError)
    assert len(asked) == 3  # on the disk, how it pools, everything


@pytest.mark.parametrize("name", ["./nowhere", "/no/where", "a/b/c", "", "a b", "../x", "model.safetensors", "-/-x y"])
def test_names_that_no_hub_could_know_never_get_there(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "reach_hub", lambda *_: pytest.fail("went to the network"))
    monkeypatch.setattr(hub, "snapshot_download", lambda *_, **__: pytest.fail("went to the network"))
    for load in (Encoder.load, Corpus.load):
        if name:  # an empty path is the folder one is in
            assert_hub_error("there is no such file or folder", lambda load=load: load(name), FileFormatError)


def test_a_missing_package_names_its_extra() -> None:
    nowhere = Package("no-such-package", "no_such_module", "hub")
    assert nowhere.version is None
    assert_hub_error(
        r"^expected the package no-such-package, got none: pip install 'oneword\[hub\]'$",
        nowhere.imported,
        MissingExtraError,
    )


def test_a_silent_hub_is_asked_while_other_things_are_loaded(monkeypatch, silent_hub):
    """The preflight counts from when the name was heard, not from when the answer is needed."""
    monkeypatch.setattr(sources.HUB.imported().constants, "ENDPOINT", silent_hub)
    monkeypatch.setattr(sources.HUB.imported().constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(sources, "PREFLIGHT_SECONDS", 1.0)
    sources.expect_hub("bert-base-uncased")
    time.sleep(0.7)
    started = time.monotonic()
    with pytest.raises(HubError, match="no answer in 1 s"):
        sources.reach_hub("bert-base-uncased", "give a folder")
    assert time.monotonic() - started < 0.8


def test_no_hub_is_asked_for_what_is_here(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "_preflights", {})
    for name in ("minilm", "all-MiniLM-L6-v2", str(tmp_path)):
        sources.expect_hub(name)
    assert not sources._preflights


@pytest.fixture
def silent_hub():
    """An address that accepts and never answers."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
