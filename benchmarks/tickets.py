"""How often the department of a ticket is right, beside plain cosine of the same embeddings.

python benchmarks/tickets.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sentence_transformers import SentenceTransformer

from jevlaya_lab import Agent
from jevlaya_lab.system_one.checkpoint import EMBEDDED

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples"))

from demo import QUESTIONS  # noqa: E402


def main() -> None:
    tickets = pd.read_csv(ROOT / "data" / "support_tickets.csv")
    question = QUESTIONS["department"]
    options = {label: f"{label}: {text}" for label, text in question["criteria"].items()}
    texts = tickets["text"].tolist()
    results = Agent().predict_batch(texts, {"department": question})
    ours = np.array([result["answers"]["department"]["choice"] for result in results])

    encoder = SentenceTransformer(str(EMBEDDED / "encoder"), device="cpu")
    states = encoder.encode(texts, normalize_embeddings=True, show_progress_bar=False)
    names = np.array(list(options))
    cosine = {}
    for name, shown in (("label", list(options)), ("label: description", list(options.values()))):
        vectors = encoder.encode(shown, normalize_embeddings=True, show_progress_bar=False)
        cosine[f"cosine, {name}"] = names[(states @ vectors.T).argmax(axis=1)]

    truth = tickets["department"].to_numpy()
    english = (tickets["language"] == "en").to_numpy()
    rows = []
    for name, answers in {"this checkpoint": ours, **cosine}.items():
        right = answers == truth
        rows.append(
            {
                "answers of": name,
                f"English (n={english.sum()})": round(right[english].mean(), 3),
                f"other languages (n={(~english).sum()})": round(right[~english].mean(), 3),
            }
        )
    print(pd.DataFrame(rows).to_string(index=False))


if __name__ == "__main__":
    main()
