"""What personal data looks like in text: patterns with checks, so that an order number stays."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

__all__ = ["PATTERNS", "Pattern", "iban_spans", "luhn"]

Spans = Callable[["re.Match[str]"], Iterator[tuple[int, int]]]


def _whole(match: re.Match[str]) -> Iterator[tuple[int, int]]:
    if match.end() > match.start():
        yield match.span()


@dataclass(frozen=True)
class Pattern:
    """A kind of data, how a candidate looks, and which parts of a candidate are it.

    Attributes:
        kind: Its name, as in ``[email]``.
        regex: Finds candidates.
        spans: Gives the spans, in the searched text, of what is to be replaced in a candidate, in
            order and apart from each other; the whole match where none is given.
    """

    kind: str
    regex: re.Pattern[str]
    spans: Spans = _whole


def luhn(digits: str) -> bool:
    """Whether the check digit of a card number is right (ISO/IEC 7812)."""
    total = 0
    for i, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 + i % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def _card_spans(match: re.Match[str]) -> Iterator[tuple[int, int]]:
    """Numbers of 13 to 19 digits with a right check digit, between the breaks of a longer run."""
    text, base = match.group(), match.start()
    places = [i for i, char in enumerate(text) if char.isdigit()]
    starts = [n for n, i in enumerate(places) if i == 0 or not text[i - 1].isdigit()]
    done = 0
    for first in starts:
        # Cards begin with 2 to 6; other first digits belong to no issuer of cards for people.
        if first < done or int(text[places[first]]) not in range(2, 7):
            continue
        for n in range(min(19, len(places) - first), 12, -1):
            end = places[first + n - 1] + 1
            if end < len(text) and text[end].isdigit():
                continue
            if luhn("".join(text[i] for i in places[first : first + n])):
                yield base + places[first], base + end
                done = first + n
                break


_LENGTHS: Final = """
    AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DK18 DO28
    EE20 EG29 ES24 FI18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26
    IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 MC27 MD24 ME22 MK19 MR27 MT31 MU30 NL18
    NO15 PK24 PL28 PS29 PT25 QA29 RO24 RS22 SA24 SC31 SE24 SI19 SK24 SM27 ST25 SV28 TN24 TR26
    UA29 VA22 VG24 XK20
"""
_IBAN_LENGTHS: Final = {entry[:2]: int(entry[2:]) for entry in _LENGTHS.split()}


def iban_spans(match: re.Match[str]) -> Iterator[tuple[int, int]]:
    """The account number in a candidate, if its country's length and check digits are right."""
    text = match.group().upper()
    length = _IBAN_LENGTHS.get(text[:2])
    places = [i for i, char in enumerate(text) if char.isalnum()]
    if length is None or len(places) < length:
        return
    end = places[length - 1] + 1
    if end < len(text) and text[end].isalnum():
        return
    number = "".join(text[i] for i in places[:length])
    if int("".join(str(int(char, 36)) for char in number[4:] + number[:4])) % 97 == 1:
        yield match.start(), match.start() + end


def _phone_spans(match: re.Match[str]) -> Iterator[tuple[int, int]]:
    if 7 <= sum(char.isdigit() for char in match.group()) <= 15:
        yield match.span()


_OCTET: Final = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"

PATTERNS: Final = {
    pattern.kind: pattern
    for pattern in (
        Pattern(
            "email",
            re.compile(r"(?<![\w.%+-])[\w.%+-]{1,64}@(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,63}(?!\w)"),
        ),
        Pattern(
            "iban",
            re.compile(r"(?<![^\W_])[A-Z]{2}[0-9]{2}(?:[ -]?[A-Z0-9]){11,40}", re.I | re.A),
            iban_spans,
        ),
        Pattern("card", re.compile(r"(?<!\w)\d(?:[ .-]?\d){12,}(?!\w)"), _card_spans),
        Pattern(
            "phone",
            re.compile(
                r"(?<![\w+])(?:"
                r"(?:\+|00)\d(?:[ ()./-]{0,2}\d){6,14}"  # with the country
                r"|\(?0\d{1,5}\)?[ /-]{1,2}\d(?:[ /-]?\d){3,10}"  # with the area, as in Europe
                r"|\(\d{3}\) ?\d{3}[ .-]\d{4}|\d{3}([ .-])\d{3}\1\d{4}"  # as in North America
                r")(?!\w)"
            ),
            _phone_spans,
        ),
        Pattern(
            "ip",
            re.compile(rf"(?<![\w.])(?:{_OCTET}\.){{3}}{_OCTET}(?!\w|\.\d)"),
        ),
    )
}
"""The kinds that are known, in the order in which they are looked for."""
