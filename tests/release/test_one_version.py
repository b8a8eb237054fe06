"""The version: one number, in every place that has to name it."""

import re

from oneword import __version__
from tests.release.conftest import ROOT


def test_changelog_and_citation_name_the_version_of_the_package() -> None:
    heading = re.search(r"^## \[(?P<version>[^]]+)\] - (?P<date>\d{4}-\d\d-\d\d)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    citation = dict(re.findall(r"^(version|date-released): \"?([^\"\n]+)\"?$", (ROOT / "CITATION.cff").read_text(), re.M))
    assert heading is not None
    assert heading["version"] == citation["version"] == __version__
    assert heading["date"] == citation["date-released"]
