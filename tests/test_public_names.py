"""The public names: few, all there, none heavy until used."""

import subprocess
import sys

import oneword as ow


def test_every_public_name_is_there_and_documented():
    assert len(ow.__all__) <= 30
    for name in ow.__all__:
        assert hasattr(ow, name)
        assert name == "__version__" or getattr(ow, name).__doc__


def test_unknown_names_are_attribute_errors():
    assert not hasattr(ow, "sensitivty")


def test_the_verb_stays_a_function_whatever_is_imported():
    code = "import oneword.sup.verb, oneword as ow; ow.theory.rf_sensitivity(9, 9); print(callable(ow.sensitivity))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "True"


def test_import_alone_does_not_load_torch():
    code = "import sys, oneword; print('torch' in sys.modules, 'sensitivity' in dir(oneword))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split() == [
        "False",
        "True",
    ]
