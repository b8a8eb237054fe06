"""The number of threads decides no digit that is said to be the same."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numba
import pandas as pd
import pytest
import torch

import oneword as ow
from oneword.words.verb import DIGITS
from tests.text.tiny_bert import needs_minilm

SAME = 10.0 ** -int(re.search(r"first (\d+)", DIGITS)[1])
TIMES = ("seconds", "threads")


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core")
def test_one_thread_and_two_give_the_digits_that_are_said_to_be_the_same():
    found = []
    before = torch.get_num_threads(), numba.get_num_threads()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
        try:
            table = ow.measure(ow.gaussian(40, 64, dtype=torch.float32), ["attention", "rf"], effort="quick")
        finally:
            torch.set_num_threads(before[0])
            numba.set_num_threads(before[1])
        found.append(table.words)
    assert table.about["digits"] == DIGITS
    pd.testing.assert_frame_equal(*found, check_exact=False, rtol=SAME, atol=0)


@needs_minilm
@pytest.mark.slow
def test_the_json_of_a_trained_model_is_the_same_for_one_thread_and_two(tmp_path: Path) -> None:
    text = "I did not love her smile, but it was a good film."
    said = []
    for threads in ("1", "2"):
        command = ["measure", text, "--map", "attention", "--map", "rf", "--model", "minilm", "--effort", "quick"]
        environment = {**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
        run = subprocess.run(
            [sys.executable, "-m", "oneword", *command, "--json", "-"], env=environment, capture_output=True, text=True
        )
        assert run.returncode == 0, run.stderr
        said.append(json.loads(run.stdout))
    _agree(*said)


def _agree(one: object, two: object) -> None:
    if isinstance(one, dict):
        assert one.keys() == two.keys()
        for name in one:
            if not any(time in name for time in TIMES):
                _agree(one[name], two[name])
    elif isinstance(one, list):
        assert len(one) == len(two)
        for each in zip(one, two, strict=True):
            _agree(*each)
    else:
        assert one == (pytest.approx(two, rel=SAME, abs=0) if isinstance(one, float) else two)
