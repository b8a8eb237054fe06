"""Layer 0 of MPNet is read from its files, and is what transformers computes."""

import sys
import tempfile
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))
import oneword as ow
from tests.text.tiny_models import write_model

TEXT = "I love this film, and I love her much."

with tempfile.TemporaryDirectory() as folder:
    model = write_model(Path(folder) / "tiny", "mpnet")
    encoder = ow.Encoder.load(f"{folder}/tiny")
    ids = torch.tensor([encoder.tokenizer.encode(TEXT).ids])
    with torch.no_grad():
        truth = model(input_ids=ids, output_hidden_states=True).hidden_states[0][0].double()
    # transformers computes in float32: sums and norms of about 16 numbers of size 1.
    assert (encoder.layer0.raw(ids[0], torch.arange(ids.shape[1])) - truth).abs().max() <= 1e-5
    text = ow.encode(TEXT, encoder)
    phi = ow.AttentionFeatures.draw(text.d, seed=0)
    assert ow.sensitivity(phi, text, within=ow.Vocabulary.of(encoder), positions=[2]).replacement is not None
