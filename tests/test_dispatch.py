"""What depends on a map is registered for the type of its Probe: no flags, no chains of isinstance."""

from __future__ import annotations

import re
from pathlib import Path

import torch

import oneword as ow
from oneword.maps.base import Probe
from oneword.search.ascent import Ascent
from oneword.search.defaults import DefaultSearch

SOURCE = Path(ow.__file__).parent


def test_no_probe_is_asked_for_its_type() -> None:
    asked = re.compile(r"(isinstance|issubclass)\([^()]*Probe|type\([^()]*\) (is|==) \w*Probe")
    found = [f"{file}: {line}" for file in SOURCE.rglob("*.py") for line in file.read_text().splitlines()
             if asked.search(line)]  # fmt: skip
    assert not found


def test_probes_have_methods_and_no_flags() -> None:
    text = ow.gaussian(3, 4)
    maps = (ow.AttentionFeatures.draw(4), ow.MultiHeadAttention.draw(4, heads=2), ow.RandomFeatures.draw(3, 4))
    for probe in (*(phi.at(text.X) for phi in maps), ow.ModuleFeatures(torch.tanh).at(text.X)):
        assert isinstance(probe, Probe)
        assert not {"cheap", "costly", "many_maxima", "own_norms"} & set(dir(probe))


def test_a_search_that_was_asked_for_is_run_as_it_is_also_where_it_is_the_default_of_other_maps() -> None:
    text, phi = ow.gaussian(4, 5, seed=0), ow.RandomFeatures.draw(4, 5, seed=0)
    asked = ow.sensitivity(phi, text, search=Ascent(), certify=False)
    assert asked.provenance["search"] == Ascent().describe()
    suited = ow.sensitivity(phi, text, certify=False)
    assert suited.provenance["search"] != Ascent().describe()
    assert suited.provenance["search_asked_for"] == DefaultSearch().describe()


def test_none_and_quick_are_what_suits_the_map() -> None:
    text, phi = ow.gaussian(4, 5, seed=0), ow.AttentionFeatures.draw(5, seed=0)
    for name, search in ((None, DefaultSearch()), ("quick", DefaultSearch(quick=True))):
        a, b = (ow.sensitivity(phi, text, search=each, certify=False) for each in (name, search))
        assert a.value == b.value
        assert torch.equal(a.delta, b.delta)
