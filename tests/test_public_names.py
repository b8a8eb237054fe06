"""The public names: few, all there, none heavy until used."""

import doctest
import subprocess
import sys

import pytest

import oneword as ow

PUBLIC = {name: getattr(ow, name) for name in ow.__all__}
PUBLIC |= {
    f"{room}.{name}": getattr(getattr(ow, room), name)
    for room in ("learning", "theory")
    for name in getattr(ow, room).__all__
}
EXAMPLES = [name for name, value in PUBLIC.items() if ">>> " in (value.__doc__ or "")]


def test_every_public_name_is_there_and_documented():
    assert len(ow.__all__) <= 40
    for name in ow.__all__:
        assert hasattr(ow, name)
        assert name == "__version__" or getattr(ow, name).__doc__


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_of_a_docstring_gives_what_it_says(name):
    found = doctest.DocTestFinder(recurse=False).find(PUBLIC[name], name, globs={"ow": ow})
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    said: list[str] = []
    for test in found:
        runner.run(test, out=said.append)
    assert runner.failures == 0, "".join(said)


def test_everything_in_the_rooms_of_learning_and_theory_is_documented():
    assert [name for name, value in PUBLIC.items() if "." in name and not value.__doc__] == []


def test_unknown_names_are_attribute_errors():
    assert not hasattr(ow, "sensitivty")


def test_verbs_stay_functions_whatever_is_imported():
    code = (
        "import importlib, pkgutil, oneword as ow\n"
        "for each in pkgutil.walk_packages(ow.__path__, 'oneword.'):\n"
        "    if not each.name.endswith('__main__'): importlib.import_module(each.name)\n"
        "verbs = ('sensitivity', 'measure', 'compare', 'audit', 'sweep')\n"
        "print([name for name in verbs if not callable(getattr(ow, name))])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_import_alone_does_not_load_torch():
    code = "import sys, oneword; print('torch' in sys.modules, 'sensitivity' in dir(oneword))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split() == [
        "False",
        "True",
    ]
