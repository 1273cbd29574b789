"""The main job: ask three typed questions about support tickets and see how it went.

Run it from the project's folder: python examples/demo.py
It reads data/support_tickets.csv and writes answers.csv, trace.csv and lifecycle.png to out/.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from jevlaya_lab import Choice, Lab, Noul, Score
from jevlaya_lab.frames import write_csv

ROOT = Path(__file__).resolve().parent.parent
OUT = Path("out")

QUESTIONS = {
    "department": Choice(
        "Which department should handle this support ticket?",
        {
            "billing": "invoices, charges, refunds and payment methods",
            "technical support": "bugs, crashes, error messages and slow or broken features",
            "account access": "login, passwords, two-factor codes and locked accounts",
            "shipping": "deliveries, tracking, damaged or missing parcels",
            "sales": "prices, plans, quotes and questions before buying",
        },
    ),
    "urgency": Score(
        "How urgent is this support ticket?",
        [
            "it can wait: a question or a suggestion without any time pressure",
            "normal: an answer in the coming days is fine",
            "urgent: work is hampered or a deadline is near",
            "emergency: an outage, a security incident or a large loss right now",
        ],
    ),
    "churn_risk": Noul("The customer wants to cancel, leave or switch to a competitor."),
}


def main() -> None:
    tickets = pd.read_csv(ROOT / "data" / "support_tickets.csv", index_col="ticket_id")
    lab = Lab()
    answers = lab.predict(tickets, QUESTIONS, state="text", detail=True)

    shown = tickets[["language", "text"]].join(answers[list(QUESTIONS)])
    shown["text"] = shown["text"].str.replace(r"\s+", " ", regex=True).str.slice(0, 52) + "…"
    shown["churn_risk"] = shown["churn_risk"].round(2)
    shown["urgency"] = shown["urgency"].round(2)
    english = tickets["language"] == "en"
    print(
        f"\n{len(tickets)} tickets in {tickets['language'].nunique()} languages. The first ones:\n"
    )
    print(shown[english].head(8).to_string())
    print("\nEnglish tickets against the true columns:\n")
    print(agreement(tickets[english], answers[english]).to_string(index=False))
    runs = lab.trace.runs
    print(
        f"\n{len(runs)} runs, {runs['elapsed_ms'].sum() / 1000:.1f} s, of which in the network "
        f"{runs['forward_ms'].sum() / 1000:.1f} s; {runs['input_tokens'].sum()} input tokens, "
        f"{runs['padded_tokens'].sum()} of padding."
    )
    write_csv(answers, OUT / "answers.csv", index=True)
    lab.trace.to_csv(OUT / "trace.csv")
    lab.lifecycle().save(OUT / "lifecycle.png")
    print(f"\nWritten: {OUT}/answers.csv, {OUT}/trace.csv, {OUT}/lifecycle.png")


def agreement(truth: pd.DataFrame, answers: pd.DataFrame) -> pd.DataFrame:
    """How often each answer is right, beside always naming the most frequent true value."""
    given = {
        "department": answers["department"].astype("object"),
        "urgency": answers["urgency"].round().astype(int),
        "churn_risk": answers["churn_risk"] >= 0.5,
    }
    rows = []
    for name, answer in given.items():
        right = answer == truth[name]
        commonest = (truth[name] == truth[name].mode()[0]).mean()
        rows.append(
            {
                "question": name,
                "tickets": len(truth),
                "accuracy": f"{right.mean():.3f}",
                "most frequent value": f"{commonest:.3f}",
            }
        )
    return pd.DataFrame(rows)


if __name__ == "__main__":
    main()
