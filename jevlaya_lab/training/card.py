"""The model card of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from jevlaya_lab.training.data import HELD_OUT, SETS
from jevlaya_lab.training.evaluation import Figures, table

__all__ = ["card"]

_CARD: Final = """\
---
language: en
license: apache-2.0
base_model: sentence-transformers/all-MiniLM-L6-v2
pipeline_tag: zero-shot-classification
---

# The embedded decision model

Answers typed questions about a text without being trained on them: *choice* (one of the given
options), *score* (a place on ordered levels) and *noul* (yes or no, as a probability). It runs on a
CPU and is meant for trying things out, for tests and for teaching; it is small, and its answers are
to be checked before anything depends on them.

A frozen sentence encoder (`encoder/`, {encoder}, Apache-2.0, weights in half precision) reads
the text once. Instructions and options are embedded once and kept. A small head
(`head.safetensors`, kind `{kind}`) compares them: the cosine between text and option, corrected by
what it learnt. Of the other options only their mean counts, so their order moves nothing. Of a
text {max_len} tokens are read, of one instruction or option {head_max_len}.

The `encoder/` folder also loads as it is with `sentence_transformers.SentenceTransformer`.

## Measured on what it was not trained on

{figures}

Whole sets were held out: {held_out}. Options are drawn by chance with the true one among them;
*plain cosine* compares text and label without the instructions. ECE is the expected calibration
error over 15 bins of the highest probability. One seed; with 1,500 rows differences below
about 0.02 are noise.

## Limits

- English only. Other languages are read token by token, mostly as noise.
- Yes/no questions that need inference or knowledge (is the claim true, does it follow from the
  text) are answered at chance or below, and too surely. Yes/no about the topic of a text works
  far better.
- Kinds of offensive language are told apart worse than by plain cosine, and too surely.
- With very many similar options (77 intents of one bank) it is no better than plain cosine.
- Graded urgency and priority are hardly better than always giving the most common level.
- Options that differ only by long descriptions are told apart badly; short, distinct labels work
  best.
- Temperatures make probabilities honest on average over questions like those above. On other
  questions they can be off; `confidence` is a hint, no guarantee.
- Not for decisions about people: not for hiring, credit, health, law, moderation without review, or
  anything with consequences for somebody.
- Some training sets hold profanity and offensive language, and films, forums and mailing lists
  carry the biases of those who write there. The head has seen all of it.

## Data

Trained on the English sets below (cut to the rows given, `train` split only; temperatures are
fitted on `test` rows). Every sixth label of the large label sets was left out of training.

| set | rows | licence | by |
| --- | ---: | --- | --- |
{trained}

Held out, for the table only:

| set | licence | by |
| --- | --- | --- |
{measured}

Attribution as these licences ask for it: each set is named with its authors and licence above; the
sets were cut, cleaned and partly reworded into questions. No row of them is in this folder. Bitext:
trained under the Community Data License Agreement - Sharing - Version 1.0, which puts no duty on
results of computational use. Home Assistant intents: Apache License 2.0. CREAK: MIT, copyright (c)
2021 Yasumasa Onoe, Michael J.Q. Zhang, Eunsol Choi and Greg Durrett. Davidson et al.: MIT,
copyright (c) 2017 Tom Davidson. SQuAD, BoolQ, FEVER, FLORES-200 and others marked CC BY-SA:
share-alike binds the data and changed copies of it.

The encoder is `sentence-transformers/all-MiniLM-L6-v2` (Apache License 2.0; its own card lists what
it was trained on), changed only in the precision of its weights.

## Made by

```
python -m jevlaya_lab.training train --data PATH --out FOLDER --head {kind} --seed {seed} \\
    --epochs {epochs} --examples {examples}
python -m jevlaya_lab.training evaluate --data PATH
```

A run takes minutes on two cores; the same seed gives the same figures within noise.
"""


def card(config: Mapping[str, Any], figures: Sequence[Figures]) -> str:
    """Write the card.

    Args:
        config: The checkpoint's config.
        figures: The held-out figures; none while they are still to be measured.
    """
    training = config["training"]
    trained = [
        f"| {name} | {n_rows} | {SETS[name].licence} | {SETS[name].cite} |"
        for name, n_rows in training["rows"].items()
    ]
    measured = [f"| {name} | {SETS[name].licence} | {SETS[name].cite} |" for name in HELD_OUT]
    return _CARD.format(
        encoder=config["encoder"],
        kind=config["head"]["kind"],
        max_len=config["max_len"],
        head_max_len=config["head_max_len"],
        figures=table(figures) if figures else "(not measured yet)",
        held_out=", ".join(HELD_OUT),
        trained="\n".join(trained),
        measured="\n".join(measured),
        seed=training["seed"],
        epochs=training["epochs"],
        examples=training["examples_per_epoch"],
    )
