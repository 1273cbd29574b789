"""Two small hooks around one call, and the picture of what they did.

Run it from the project's folder: python examples/hooks/redact.py
It writes out/redact.png, the picture in the README.
"""

from __future__ import annotations

import re

from jevlaya_lab import BaseHook, Choice, Lab, Noul, PredictContext, Score

CARD = re.compile(r"\b\d{4}(?: ?\d{4}){3}\b")


class Redact(BaseHook):
    """Replaces card numbers before anything reads the states."""

    def on_predict_start(self, ctx: PredictContext) -> None:
        ctx.states = [
            CARD.sub("[card number]", state) if isinstance(state, str) else state
            for state in ctx.states
        ]


class Flag(BaseHook):
    """Marks results in which the customer sounds like leaving."""

    def on_predict_end(self, ctx: PredictContext) -> None:
        ctx.results = [
            {**result, "call_back": result["answers"].get("churn", {}).get("noul", 0) >= 0.5}
            for result in ctx.results or []
        ]


def main() -> None:
    lab = Lab()
    answers = lab.predict(
        [
            "My card 4111 1111 1111 1111 was charged twice. Refund me today or I cancel.",
            "How do I change the picture of my profile?",
            "The parcel arrived open and one cup is broken.",
        ],
        {
            "team": Choice(
                "Which team should answer?", ["billing", "technical support", "shipping"]
            ),
            "urgency": Score("How urgent is it?", ["it can wait", "normal", "urgent"]),
            "churn": Noul("The customer wants to leave."),
        },
        hooks=[Redact(), Flag()],
    )
    print(answers.round(2).to_string())
    print("\nWritten:", lab.lifecycle().save("out/redact.png"))


if __name__ == "__main__":
    main()
