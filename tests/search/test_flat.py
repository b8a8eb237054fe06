"""Maps whose gradient is zero wherever the search looks: it cannot climb, and says so."""

from __future__ import annotations

import pytest
import torch

import oneword as ow
from oneword.maps.base import ModuleFeatures
from oneword.search.base import Status
from oneword.search.defaults import DefaultSearch
from oneword.search.frugal import FrugalAscent

SEARCHES = {
    "full": DefaultSearch(),
    "quick": DefaultSearch(quick=True),
    "unpolished": ow.Ascent(polish=0),
    "short": ow.Ascent(polish=1),
}


def _measured(phi, search, positions=None, words=1):
    X = ow.gaussian(3, 2, seed=0).X
    return ow.sensitivity(phi, X, search=search, positions=positions, words=words)


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
@pytest.mark.parametrize("positions", [None, [1]])
def test_a_map_without_slopes_is_not_called_converged(search, positions):
    found = _measured(torch.sign, search, positions)
    assert found.status is Status.ZERO_GRADIENT
    assert "finite set of words" in found.status.remedy
    assert found.status.remedy in repr(found)
    assert found.status.remedy in found._repr_html_()


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_neither_is_a_constant(search):
    found = _measured(lambda X: torch.ones_like(X) + 0 * X, search)
    assert (found.value, found.status) == (0.0, Status.ZERO_GRADIENT)


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_several_words_at_once_say_so_too(search):
    assert _measured(torch.sign, search, words=2).status is Status.ZERO_GRADIENT


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
@pytest.mark.parametrize(
    "phi",
    [
        torch.tanh,
        torch.relu,  # flat at every start of the words that stay negative
        lambda X: X.clamp(min=1.5) + 1,  # flat nearly everywhere
        lambda X: torch.cat([torch.sign(X[..., :1, :]), X[..., 1:, :]], -2),  # one word flat, the others not
    ],
    ids=["tanh", "relu", "nearly flat", "one flat word"],
)
def test_a_slope_somewhere_is_enough(phi, search):
    assert _measured(phi, search).status is not Status.ZERO_GRADIENT


@pytest.mark.parametrize("quick", [True, False])
def test_the_search_of_models_notices(quick):
    for function, flat in ((torch.sign, True), (torch.tanh, False)):
        probe = ModuleFeatures(function).at(ow.gaussian(3, 2, seed=0).X)
        found = FrugalAscent.suited_to(3, quick=quick).run(probe, torch.arange(3)[:, None], ow.Ball())
        assert (found.status is Status.ZERO_GRADIENT) == flat
