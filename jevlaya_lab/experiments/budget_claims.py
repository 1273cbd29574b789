"""What was expected of token budgets, against the frame of what was seen."""

from __future__ import annotations

from typing import Final

import pandas as pd

from jevlaya_lab.experiments.result import Claim

__all__ = ["claims_about"]

TOLERANCE: Final = 0.01
"""How far the probability of an answer about a whole state may move."""

_SAME: Final = ["n_truncated", "tokens_kept", "input_tokens", "agreement", "max_shift"]


def claims_about(frame: pd.DataFrame, routed: bool) -> tuple[Claim, ...]:
    """The claims of ``budget``.

    Args:
        frame: What was seen.
        routed: Whether each state was a router's request with a context of its own.
    """
    fine = frame[frame["error"].isna()]
    states, heads = (fine[fine["budget"] == kind] for kind in ("max_len", "head_max_len"))
    hooked = fine[fine["budget"] == "by hook"]
    return (
        _carried(pd.concat([states, heads]), "L-21" if routed else "L-4"),
        _by_hook(states, hooked, "L-21" if routed else "L-4"),
        _bounded(pd.concat([states, hooked])),
        _monotone(pd.concat([states, fine[fine["budget"] == "full"]]), frame),
        _whole(states),
        _better("max_len", states),
        _better("head_max_len", heads),
        _collapsed(heads),
    )


def _carried(rows: pd.DataFrame, rule: str) -> Claim:
    text = "The contexts of a call carry its budget."
    if rows.empty:
        return Claim(text, None, "No budget was taken.", rule)
    wrong = rows[rows["ctx_tokens"].ne(rows["tokens_allowed"]).fillna(True)]
    calls, bad = (
        len(each[["budget", "tokens_allowed"]].drop_duplicates()) for each in (rows, wrong)
    )
    return Claim(text, bad == 0, f"{calls - bad} of {calls} calls.", rule)


def _by_hook(states: pd.DataFrame, hooked: pd.DataFrame, rule: str) -> Claim:
    text = "A budget that a start hook sets counts as one of the call does."
    if hooked.empty:
        return Claim(text, None, "Every max_len was refused.", rule)
    size = hooked["tokens_allowed"].iloc[0]
    called = states[states["tokens_allowed"] == size]
    same = called[_SAME].reset_index(drop=True).equals(hooked[_SAME].reset_index(drop=True))
    return Claim(
        text,
        bool(same),
        f"With {size} tokens {_tokens(called)} tokens of states were read when the call said so, "
        f"{_tokens(hooked)} when a hook did{'' if same else ', and answers or usage differ'}.",
        rule,
    )


def _tokens(rows: pd.DataFrame) -> object:
    return rows["tokens_kept"].iloc[0] if len(rows) else "no"


def _bounded(rows: pd.DataFrame) -> Claim:
    text = "No state is read beyond its budget."
    if rows.empty:
        return Claim(text, None, "No budget was taken.")
    calls = rows.drop_duplicates(["budget", "tokens_allowed"])
    seen = ", ".join(
        f"{row['most_kept']} of {row['tokens_allowed']}" for _, row in calls.iterrows()
    )
    held = bool((calls["most_kept"] <= calls["tokens_allowed"]).all())
    return Claim(text, held, f"Most tokens of a state: {seen}.")


def _monotone(rows: pd.DataFrame, frame: pd.DataFrame) -> Claim:
    text = "A larger budget cuts no more states and reads no fewer tokens."
    calls = rows.drop_duplicates(["budget", "tokens_allowed"]).sort_values("tokens_allowed")
    refused = frame.loc[frame["error"].notna(), ["budget", "tokens_allowed"]].drop_duplicates()
    more = "".join(f" {kind}={size} was refused." for kind, size in refused.itertuples(index=False))
    if len(calls) < 2:
        return Claim(text, None, f"There is nothing to compare.{more}")
    cut, kept = calls["n_truncated"].tolist(), calls["tokens_kept"].tolist()
    names = ["full" if pd.isna(size) else str(size) for size in calls["tokens_allowed"]]
    seen = ", ".join(f"{c} at {name}" for c, name in zip(cut, names, strict=True))
    held = cut == sorted(cut, reverse=True) and kept == sorted(kept)
    share = kept[0] / max(1, kept[-1])
    return Claim(
        text,
        held,
        f"States cut: {seen}, of {calls['n_states'].iloc[0]}; the smallest reads {share:.0%} of "
        f"the tokens.{more}",
    )


def _whole(rows: pd.DataFrame) -> Claim:
    text = f"A state that is not cut keeps its answers, within {TOLERANCE}."
    known = rows[rows["agreement_whole"].notna()]
    if known.empty:
        return Claim(text, None, "Every state was cut.")
    n = int((known["n_states"] - known["n_seen_cut"]).sum())
    shift, lost = known["max_shift_whole"].max(), int((known["agreement_whole"] < 1).sum())
    return Claim(
        text,
        bool(lost == 0 and shift <= TOLERANCE),
        f"{n} answers about whole states, largest shift {shift:.2g}"
        + (f"; {lost} questions lost some." if lost else "."),
    )


def _better(kind: str, rows: pd.DataFrame) -> Claim:
    text = (
        f"The largest {kind} gives the answers of the full one at least as often as the smallest."
    )
    by = rows.groupby("tokens_allowed")["agreement"].mean().sort_index()
    if len(by) < 2:
        return Claim(text, None, "Fewer than two budgets were taken.")
    seen = ", ".join(f"{share:.0%} at {size}" for size, share in by.items())
    return Claim(text, bool(by.iloc[-1] >= by.iloc[0]), f"Same answers: {seen}.")


def _collapsed(rows: pd.DataFrame) -> Claim:
    text = "Options of a choice that a budget cut to the same text get the same probability."
    lost = rows[(rows["options_distinct"] < rows["options"]) & (rows["type"] == "choice")]
    if lost.empty:
        return Claim(text, None, "No options became the same.")
    seen = "; ".join(
        f"{row['question']} at {row['tokens_allowed']}: {row['options']} options, "
        f"{row['options_distinct']} distinct, at most {row['most_probabilities']} probabilities"
        for _, row in lost.iterrows()
    )
    held = bool((lost["most_probabilities"] <= lost["options_distinct"]).all())
    return Claim(text, held, f"{seen}.")
