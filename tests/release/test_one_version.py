"""The version: one number, in every place that has to name it."""

import re

from oneword import __version__
from tests.release.conftest import ROOT


def test_changelog_and_citation_name_the_version_of_the_package() -> None:
    changelog, citation = ((ROOT / name).read_text() for name in ("CHANGELOG.md", "CITATION.cff"))
    heading = re.search(r"^## \[(?P<version>.+)\] - (?P<date>\d{4}-\d\d-\d\d)$", changelog, re.MULTILINE)
    cited = dict(re.findall(r"^(version|date-released): (.+)$", citation, re.MULTILINE))
    assert heading is not None
    assert heading["version"] == cited["version"] == __version__
    assert heading["date"] == cited["date-released"]
