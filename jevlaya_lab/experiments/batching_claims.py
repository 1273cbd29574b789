"""What was expected of batches, against the frame of what was seen."""

from __future__ import annotations

from typing import Final

import pandas as pd

from jevlaya_lab.experiments.result import Claim

__all__ = ["claims_about"]

TOLERANCE: Final = 0.01
"""How far a probability may move with the batch: padding changes the order of sums."""

_UNSEEN: Final = "The passes of these agents cannot be seen."


def claims_about(frame: pd.DataFrame) -> tuple[Claim, ...]:
    """The claims of ``batching``; counts are exact, and a claim about time may not be told."""
    sizes = frame[frame["part"] == "size"]
    return (
        _passes(sizes[sizes["expected_passes"].notna()]),
        _content(sizes),
        _sorting(sizes),
        _answers(sizes),
        _sharing(frame[frame["part"] == "mixed"]),
        _faster(sizes[sizes["batch_size"] > 0]),
    )


def _passes(sizes: pd.DataFrame) -> Claim:
    text = "A run of k states in batches of b takes k/b forward passes, rounded up."
    if sizes.empty:
        return Claim(text, None, _UNSEEN, "L-6")
    wrong = sizes[
        (sizes["passes"] != sizes["expected_passes"])
        | (sizes["largest_pass"] > sizes["batch_size"])
    ]
    seen = "; ".join(
        f"{row['passes']} for {row['setting']}"
        + ("" if row["passes"] == row["expected_passes"] else f" (not {row['expected_passes']})")
        for _, row in (sizes if wrong.empty else wrong).iterrows()
    )
    return Claim(text, wrong.empty, f"Passes: {seen}.", "L-6")


def _content(sizes: pd.DataFrame) -> Claim:
    text = "Batches change the padding alone: rows and tokens are the same."
    if sizes["rows"].isna().any():
        return Claim(text, None, _UNSEEN)
    rows, tokens = sorted(set(sizes["rows"])), sorted(set(sizes["tokens"]))
    return Claim(
        text,
        len(rows) == len(tokens) == 1,
        f"Rows {' or '.join(map(str, rows))}, tokens {' or '.join(map(str, tokens))} "
        f"in {len(sizes)} settings.",
    )


def _sorting(sizes: pd.DataFrame) -> Claim:
    text = "Sorted by length, no batch size pads more, and some less."
    if sizes["padding"].isna().any():
        return Claim(text, None, _UNSEEN)
    # Alone nothing is padded, and in one pass there is no other way.
    several = sizes["passes"] > sizes["runs"].str.count(" ") + 1
    rows = sizes[several & (sizes["batch_size"] != 1)]
    if rows.empty:
        return Claim(text, None, "Every run was one pass, or one state at a time.")
    by = rows.assign(sorted=rows["sorting"] != "off").pivot(
        index="batch_size", columns="sorted", values="padding_share"
    )
    saved = by[False] - by[True]
    seen = ", ".join(
        f"{was:.1%} to {now:.1%} {f'in batches of {size}' if size else 'as the runtime fills'}"
        for size, was, now in zip(by.index, by[False], by[True], strict=True)
    )
    held = bool((saved >= 0).all() and (saved > 0).any())
    return Claim(text, held, f"Padding from {seen}.")


def _answers(sizes: pd.DataFrame) -> Claim:
    shift, changed = sizes["max_shift"].max(), int(sizes["n_changed"].max())
    return Claim(
        f"The batch decides no answer, and moves no probability or score by more than {TOLERANCE}.",
        bool(changed == 0 and shift <= TOLERANCE),
        f"{changed} answers changed, largest shift {shift:.2g}.",
        "L-18",
    )


def _sharing(mixed: pd.DataFrame) -> Claim:
    asks, runs = list(mixed["asks"]), list(mixed["runs"])
    one = all(len(each.split()) == 1 for each in [*asks, *runs])
    pairs = set(zip(asks, runs, strict=True))
    held = one and len(pairs) == len(set(asks)) == len(set(runs))
    seen = "; ".join(
        f"run {run!s}: " + ", ".join(group["setting"])
        for run, group in mixed.groupby("runs", sort=False)
    )
    return Claim(
        "Requests share a call of the agent exactly where questions, with the order of their "
        "options, and budgets are the same.",
        held,
        f"{len(set(asks))} ways of asking, {len(set(runs))} calls. {seen}.",
        "L-23",
    )


def _faster(sizes: pd.DataFrame) -> Claim:
    text = "Larger batches answer more states per second."
    rows = sizes[sizes["sorting"] != "off"].sort_values("batch_size")
    if len(rows) < 2 or rows["n_repeats"].min() < 3:
        return Claim(text, None, "It takes two batch sizes and three repeats to tell.")
    small, large = rows.iloc[0], rows.iloc[-1]
    seen = " and ".join(
        f"{row['states_per_s']:.0f} ({row['states_per_s_low']:.0f} to "
        f"{row['states_per_s_high']:.0f}) states/s in batches of {row['batch_size']}"
        for row in (small, large)
    )
    held = None
    if large["ms_high"] < small["ms_low"]:
        held = True
    elif large["ms_low"] > small["ms_high"]:
        held = False
    return Claim(
        text, held, f"{seen}, on this machine{'' if held is not None else '; these overlap'}."
    )
