"""Redaction of text, JSON states and conversations, over this package's and laya's objects."""

from __future__ import annotations

import copy
import re
import time

import laya
import pytest
from fakes import QUESTIONS, Recorder, RecordingNetwork, StubAgent, make_agent, start_thread

from jevlaya_lab import Router
from jevlaya_lab.contrib_hooks import Pattern, Redaction
from jevlaya_lab.system_one.errors import InvalidOption, InvalidState

CARD = "4111 1111 1111 1111"
IBAN = "DE89 3704 0044 0532 0130 00"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("write to anna.b+c@mail.example.org, please", "write to [email], please"),
        ("ünal@müller.de", "[email]"),
        ("not@home, a@b", "not@home, a@b"),
        (f"card {CARD}.", "card [card]."),
        ("4111-1111-1111-1111 and 378282246310005", "[card] and [card]"),
        ("4111 1111 1111 1112", "4111 1111 1111 1112"),
        (f"order 12 {CARD} 07/27", "order 12 [card] 07/27"),
        ("1234567890123456", "1234567890123456"),
        (f"IBAN {IBAN} BITTE", "IBAN [iban] BITTE"),
        ("GB82WEST12345698765432", "[iban]"),
        ("gb82 west 1234 5698 7654 32", "[iban]"),
        ("call +49 (0)30 1234567 now", "call [phone] now"),
        ("call 0049 30 1234567", "call [phone]"),
        ("030/1234567 or 030 12 34 56 78", "[phone] or [phone]"),
        ("(415) 555-2671, 415-555-2671", "[phone], [phone]"),
        ("on 2026-12-01 at 10:30 for 1,234.50 EUR", "on 2026-12-01 at 10:30 for 1,234.50 EUR"),
        ("version 1.2.3, host 192.168.0.255!", "version 1.2.3, host [ip]!"),
        ("from 10.0.0.1.", "from [ip]."),
        ("999.1.1.1 and 1.2.3.4.5", "999.1.1.1 and 1.2.3.4.5"),
        ("", ""),
    ],
)
def test_what_is_found(text, wanted):
    assert Redaction().redact(text) == wanted


@pytest.mark.parametrize("text", ["DE89 3704 0044 0532 0130 01", "XX" + IBAN[2:], IBAN[:-1]])
def test_account_numbers_are_checked(text):
    assert Redaction("iban").redact(text) == text
    assert Redaction("iban").redact(IBAN) == "[iban]"


def test_json_and_conversations_keep_their_keys_and_the_callers_objects():
    hook, seen = Redaction(), Recorder()
    states = [
        {"a@b.org": "c@d.org", "card": 4111111111111111, "n": 7, "ok": True, "x": None, "f": 1.5},
        [{"role": "user", "content": f"my card is {CARD}"}, {"role": "agent", "content": "thanks"}],
        "plain",
        ("pay", IBAN),
    ]
    given = copy.deepcopy(states)
    make_agent(hooks=[hook, seen]).predict_batch(states, QUESTIONS)

    assert states == given
    assert seen.contexts[0].states == [
        {"a@b.org": "[email]", "card": "[card]", "n": 7, "ok": True, "x": None, "f": 1.5},
        [
            {"role": "user", "content": "my card is [card]"},
            {"role": "agent", "content": "thanks"},
        ],
        "plain",
        ["pay", "[iban]"],
    ]
    assert hook.counts == {"email": 1, "card": 2, "iban": 1}


def test_the_network_reads_what_is_left():
    network = RecordingNetwork()
    make_agent(network, hooks=[Redaction()]).predict("me@here.org", QUESTIONS)

    assert "encode [email]" in network.steps


def test_states_in_which_nothing_is_found_stay_the_same_objects():
    seen, states = Recorder(), ["a", {"b": [1, 2]}]
    make_agent(hooks=[Redaction(), seen]).predict_batch(states, QUESTIONS)

    assert seen.contexts[0].states is states


def test_own_patterns_come_first_and_kinds_can_be_chosen():
    def even(match):
        if int(match.group()) % 2 == 0:
            yield match.span()

    hook = Redaction(
        ["email"],
        {"ticket": r"T-\d+", "even": Pattern("even", re.compile(r"\b\d+\b"), even)},
        placeholder=lambda kind, text: f"<{kind}:{len(text)}>",
    )

    assert hook.redact("T-123 7 8 a@b.org 5551") == "<ticket:5> 7 <even:1> <email:7> 5551"
    assert hook.redact("call 030/1234567") == "call <even:3>/1234567"


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"kinds": ["nose"]}, "knows no kind 'nose'"),
        ({"patterns": {"x": "("}}, "no regular expression"),
        ({"patterns": {"x": 5}}, "no regular expression"),
        ({"patterns": {"x": "a*"}}, "empty text"),
    ],
)
def test_what_cannot_work_is_refused(arguments, match):
    with pytest.raises(InvalidOption, match=match):
        Redaction(**arguments)


def test_a_state_that_holds_itself_is_refused():
    ring: list[object] = []
    ring.append(ring)
    with pytest.raises(InvalidState, match="state 1 is nested too deep"):
        make_agent(hooks=[Redaction()]).predict_batch(["a", ring], QUESTIONS)


def test_long_texts_take_no_time_that_grows_with_their_square():
    hook = Redaction()
    for piece in ("a", "1", "a.", "1.", "1 ", "a@", "(", "DE89 ", "+1"):
        began = time.process_time()
        hook.redact(piece * (40_000 // len(piece)))
        assert time.process_time() - began < 5, piece


@pytest.mark.parametrize("make", [Router, laya.Router])
@pytest.mark.parametrize("together", [True, False])
def test_routers_of_both_makes_pass_on_what_is_left(make, together):
    hook, stub = Redaction(), StubAgent()
    router = make(hooks=[hook], hooks_concurrent=together)
    router.attach("english", stub)
    asked = [{"state": f"a{i}@b.org", "questions": QUESTIONS, "model": "english"} for i in (1, 2)]
    router.predict_batch(asked)
    router.predict("c@d.org", QUESTIONS, model="english")

    assert [call[1] for call in stub.calls] == [["[email]"] * 2, ["[email]"]]
    assert asked[0]["state"] == "a1@b.org"
    assert hook.counts == {"email": 3}


def test_threads_are_counted_together():
    hook = Redaction()
    agent = make_agent(hooks=[hook])
    threads = [
        start_thread(lambda: [agent.predict("a@b.org", QUESTIONS) for _ in range(50)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.join(60)

    assert hook.counts == {"email": 200}
