"""The main job: ask three typed questions about support tickets and see how it went.

Run it from the project's folder: python examples/demo.py
It reads data/support_tickets.csv and writes the answers, the trace and a picture to out/.
"""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

from jevlaya_lab import BaseHook, Choice, Lab, Noul, PredictContext, Score
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


EMAIL = re.compile(r"[\w.+-]+@[\w-]+\.[\w.]+")


class MaskEmails(BaseHook):
    """Takes e-mail addresses out of the tickets before anything reads them."""

    def on_predict_start(self, ctx: PredictContext) -> None:
        ctx.states = [EMAIL.sub("[e-mail]", state) for state in ctx.states]


def main() -> None:
    tickets = pd.read_csv(ROOT / "data" / "support_tickets.csv", index_col="ticket_id")
    lab = Lab()
    answers = lab.predict(tickets, QUESTIONS, state="text", detail=True, hooks=MaskEmails())

    shown = tickets[["language", "text"]].join(answers[list(QUESTIONS)])
    shown["text"] = shown["text"].str.replace(r"\s+", " ", regex=True).str.slice(0, 52) + "…"
    shown["churn_risk"] = shown["churn_risk"].round(2)
    shown["urgency"] = shown["urgency"].round(2)
    english = tickets["language"] == "en"
    languages = tickets["language"].nunique()
    print(f"\n{len(tickets)} tickets in {languages} languages. The first English ones:\n")
    print(shown[english].head(8).to_string())
    print("\nEnglish tickets against the true columns:\n")
    print(agreement(tickets[english], answers[english]).to_string(index=False))
    print("\nWhere the other tickets were routed, and why (one of each language):\n")
    others = answers[~english].groupby(tickets["language"]).head(1)
    for ticket, row in others.iterrows():
        reason = row["routing_reason"].partition(";")[0]
        print(f"  {tickets.language[ticket]}  {ticket}  {row['routing_model']:12}  {reason}")
    sent = answers["routing_model"].eq("english") == english
    named = answers["routing_language"] == tickets["language"]
    right = answers["department"].astype("object") == tickets["department"]
    print(
        f"\n{sent.mean():.3f} of the tickets went where their language belongs; the detector named "
        f"the language of {named.mean():.3f}.\nThe embedded weights stand in under both names; "
        f"they are small and English: of the other\nlanguages {right[~english].mean():.3f} of the "
        "departments are right. What else they can and cannot do is in\n"
        "jevlaya_lab/checkpoints/embedded/README.md."
    )
    trace = lab.trace
    calls, runs = trace.calls, trace.runs
    agents = runs[runs["scope"] == "agent"]
    seconds, forward = calls["elapsed_ms"].sum() / 1000, agents["forward_ms"].sum() / 1000
    print(
        f"\n{len(calls)} calls took {seconds:.1f} s, with {calls['n_loads'].sum()} checkpoints "
        f"loaded and {forward:.1f} s in the network;\n{agents['input_tokens'].sum()} input tokens, "
        f"{agents['padded_tokens'].sum()} of padding. Where the time went:\n"
    )
    shown = ["scope", "model", "n_runs", "p50_ms", "p95_ms", "encode_ms", "forward_ms"]
    print(trace.summary()[shown].round(1).astype(object).fillna("").to_string(index=False))
    write_csv(answers, OUT / "answers.csv")
    trace.to_csv(OUT / "trace.csv")
    trace.to_chrome(OUT / "trace.json")
    lab.lifecycle(runs.loc[runs["scope"] == "router", "run_id"].iloc[0]).save(OUT / "lifecycle.png")
    print(f"\nWritten to {OUT}/:")
    print("  answers.csv       the answers; answers.schema.json holds their types")
    print("  trace.csv         one row per run; beside it calls, events and trace.schema.json")
    print("  trace.json        the same as a timeline for https://ui.perfetto.dev")
    print("  lifecycle.png     one run as a picture")


def agreement(truth: pd.DataFrame, answers: pd.DataFrame) -> pd.DataFrame:
    """How often each answer is right, beside always naming the most frequent true value.

    Accuracy says little about a score or about a flag that is rarely set, so these two also have
    the share of pairs that they put into the right order (0.5 is chance).
    """
    given = {
        "department": answers["department"].astype("object"),
        "urgency": answers["urgency"].round().astype(int),
        "churn_risk": answers["churn_risk"] >= 0.5,
    }
    rows = []
    for name, answer in given.items():
        right = answer == truth[name]
        order = "" if name == "department" else f"{in_order(answers[name], truth[name]):.3f}"
        commonest = (truth[name] == truth[name].mode()[0]).mean()
        rows.append(
            {
                "question": name,
                "tickets": len(truth),
                "accuracy": f"{right.mean():.3f}",
                "most frequent value": f"{commonest:.3f}",
                "pairs in order": order,
            }
        )
    return pd.DataFrame(rows)


def in_order(scores: pd.Series, truth: pd.Series) -> float:
    """Of all pairs with different true values, how many the scores order rightly (ties: half)."""
    known = truth.astype(int).to_numpy()
    gaps = scores.to_numpy()[:, None] - scores.to_numpy()[None, :]
    pairs = gaps[known[:, None] > known[None, :]]
    return float((pairs > 0).mean() + (pairs == 0).mean() / 2)


if __name__ == "__main__":
    main()
