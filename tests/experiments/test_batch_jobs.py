"""Files that describe jobs of a batch system, the job scripts that come of them, and ways to a cluster."""

import re
import subprocess
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from oneword.errors import FileFormatError, RangeError, UnknownNameError
from oneword.experiments.cluster import Cluster
from oneword.experiments.jobs import THREADS, Jobs, read_jobs
from oneword.validation import read_model
from tests.markdown_pages import ROOT, blocks

EXAMPLE = ROOT / "examples" / "slurm.toml"
LEAST = {"system": "slurm", "jobs": 2, "cores": 4, "memory": "12GB"}
# The directives of one job of 4 cores, 12 GB, 3 hours in the queue "cpu".
HEADS = {
    "slurm": ["-p cpu", "--cpus-per-task=4", "--mem=12G", "-t 03:00:00", "--comment=mine"],
    "pbs": ["-q cpu", "-l select=1:ncpus=4:mem=12GB", "-l walltime=03:00:00", "--comment=mine"],
    "lsf": ["-q cpu", "-n 4", "-M 12000", "-W 03:00", "--comment=mine"],
}
MARKS = {"slurm": "#SBATCH", "pbs": "#PBS", "lsf": "#BSUB"}


def test_the_example_and_the_files_of_the_page_are_read(tmp_path: Path) -> None:
    example = read_jobs(EXAMPLE)
    assert (example.system, example.cores, example.memory) == ("slurm", 16, "64GB")
    shown = [block.code for block in blocks(ROOT / "docs" / "howto" / "cluster.md", "toml")]
    assert shown
    for code in shown:
        (tmp_path / "jobs.toml").write_text(code)
        assert read_jobs(tmp_path / "jobs.toml").jobs >= 1


def test_every_line_of_the_example_that_is_switched_off_is_a_key_too() -> None:
    text = re.sub(r"^# (?=\w+ = )", "", EXAMPLE.read_text(), flags=re.MULTILINE)
    jobs = read_model(Jobs, tomllib.loads(text), EXAMPLE.name)
    assert jobs.account == "project-42"
    assert jobs.interface == "ib0"


@pytest.mark.parametrize("system", HEADS)
def test_the_job_script(system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One worker per core with one thread, behind the directives of the job and the prologue."""
    pytest.importorskip("dask_jobqueue")
    # Which units LSF counts memory in is asked of the system, and there is none here.
    monkeypatch.setattr("dask_jobqueue.lsf.lsf_detect_units", lambda: "mb")
    walltime = "03:00" if system == "lsf" else "03:00:00"
    more = {"walltime": walltime, "queue": "cpu", "directives": ["--comment=mine"], "prologue": ["source /my/activate"]}
    jobs = read_model(Jobs, {**LEAST, "system": system, "python": "/my/python", **more}, "jobs.toml")
    module, kind = jobs.place
    options = jobs.options()
    options["scheduler_options"] |= {"host": "127.0.0.1"}
    with getattr(import_module(module), kind)(**options) as cluster:
        script = cluster.job_script()
    (tmp_path / "job.sh").write_text(script)
    subprocess.run(["bash", "-n", tmp_path / "job.sh"], check=True)
    lines = script.splitlines()
    head = [line.removeprefix(MARKS[system]).strip() for line in lines if line.startswith(MARKS[system])]
    assert set(HEADS[system]) <= set(head), head
    (worker,) = [line for line in lines if "dask_worker" in line]
    assert worker.startswith("/my/python -m distributed.cli.dask_worker tcp://127.0.0.1:")
    assert "--nthreads 1 " in worker
    assert "--nworkers 4 " in worker
    assert "--memory-limit 2.79GiB " in worker  # 12 GB / 4
    assert "--nanny " in worker  # ends a cell that takes too long
    before = lines[: lines.index(worker)]
    assert {f"export {name}=1" for name in THREADS} | {"source /my/activate"} <= set(before)


@pytest.mark.parametrize(
    ("change", "kind", "said"),
    [
        ({"quue": "cpu"}, UnknownNameError, r"got 'quue'.*did you mean.*queue"),
        ({"system": "slrum"}, RangeError, "expected system .*'slurm'.*, got 'slrum'"),
        ({"jobs": None}, RangeError, "expected jobs, got none: add it"),
        ({"memory": None}, RangeError, "expected memory, got none: add it"),
        ({"cores": 0}, RangeError, "expected cores to be greater than or equal to 1, got 0"),
        ({"cores": "16"}, RangeError, "expected cores to be a valid integer, got '16'"),
        ({"memory": 12}, RangeError, "expected memory to be a valid string, got 12"),
        ({"prologue": "module load python"}, RangeError, "expected prologue to be a valid tuple"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_what_a_file_may_not_say(change: dict[str, object], kind: type[Exception], said: str, tmp_path: Path) -> None:
    content = {key: value for key, value in {**LEAST, **change}.items() if value is not None}
    file = tmp_path / "jobs.toml"
    file.write_text("".join(f"{key} = {value!r}\n" for key, value in content.items()))
    with pytest.raises(kind, match=said) as caught:
        read_jobs(file)
    assert str(caught.value).startswith("jobs.toml: ")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"expected a TOML file of jobs, got .*none\.toml"):
        read_jobs(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "expected one way to a cluster .*, got none"),
        ({"address": "tcp://head:8786", "jobqueue": EXAMPLE}, "got address and jobqueue"),
        ({"scheduler_file": EXAMPLE, "jobqueue": EXAMPLE}, "got scheduler_file and jobqueue"),
        ({"address": 8786}, "expected address of cluster as a text or a path, got 8786"),
        ({"address": "tls://head:8786", "tls_ca": EXAMPLE}, "expected three files for TLS .*, got 1"),
        ({"jobqueue": EXAMPLE, "tls_ca": EXAMPLE, "tls_cert": EXAMPLE, "tls_key": EXAMPLE}, "dask-jobqueue makes its"),
    ],
)
def test_a_cluster_is_reached_in_one_way(given: dict[str, object], said: str) -> None:
    with pytest.raises(RangeError, match=said):
        Cluster.of(given)


def test_a_mapping_gives_the_fields_of_a_cluster() -> None:
    assert Cluster.of({"scheduler_file": "scheduler.json"}) == Cluster(scheduler_file=Path("scheduler.json"))
    assert Cluster.of("tcp://head:8786") == Cluster(address="tcp://head:8786")
    with pytest.raises(UnknownNameError, match=r"got 'adress'.*did you mean 'address'"):
        Cluster.of({"adress": "tcp://head:8786"})
    with pytest.raises(RangeError, match="expected jobqueue of cluster as a text or a path, got 3"):
        Cluster.of({"jobqueue": 3})
