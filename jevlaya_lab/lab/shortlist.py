"""Choices among hundreds of options: ask only about the nearest, or let groups of them compete."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np
import pandas as pd
from tqdm.auto import tqdm

from jevlaya_lab.embedding.errors import EmbeddingError
from jevlaya_lab.embedding.generator import EmbeddingGenerator
from jevlaya_lab.embedding.identity import Embeddings
from jevlaya_lab.lab.inputs import StateColumns
from jevlaya_lab.lab.options import ManyOptions
from jevlaya_lab.lab.shortlist_frame import ShortlistFrame
from jevlaya_lab.lab.vectors import check_embedding, embed_states
from jevlaya_lab.system_one.encoding import check_count
from jevlaya_lab.system_one.errors import InvalidOption
from jevlaya_lab.system_one.hooks import CallableArg, HookArg
from jevlaya_lab.tracing.recorder import TraceRecorder

__all__ = ["OptionVectors", "Shortlisting"]

_BLOCK: Final = 4096
_SETS: Final = 8


class OptionVectors:
    """Vectors of lists of options, embedded once; those of another model are never taken (E-10)."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, tuple[str, ...]], Embeddings] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, texts: Sequence[str], embedding: EmbeddingGenerator) -> Embeddings:
        """The vectors of some options, in their order."""
        wanted = tuple(texts)
        if embedding.identity.dimension is not None:
            key = (embedding.identity.fingerprint, wanted)
            with self._lock:
                if key in self._kept:
                    self._kept.move_to_end(key)
                    return self._kept[key]
        found = embedding.embed_sync(texts)
        with self._lock:
            self._kept[found.identity.fingerprint, wanted] = found
            while len(self._kept) > _SETS:
                self._kept.popitem(last=False)
        return found


class Shortlisting:
    """The part of a Lab that asks about many options."""

    agent: Any
    recorder: TraceRecorder
    last: pd.DataFrame | None
    _options: OptionVectors

    def shortlist(
        self,
        data: Any,
        question: Mapping[str, Any],
        *,
        keep: int = 20,
        method: Literal["embed", "tournament"] = "embed",
        embedding: Any = None,
        state: StateColumns = None,
        errors: str = "raise",
        dedupe: bool = True,
        chunk_size: int = 32,
        hooks: HookArg = None,
        on_predict_start: CallableArg = None,
        on_predict_end: CallableArg = None,
        progress: bool = True,
        **options: Any,
    ) -> pd.DataFrame:
        """Answer a choice with hundreds of options, each state among a few of them.

        ``"embed"`` embeds states and options (``label: description``) and asks about the ``keep``
        options that are nearest to the state; a right answer that is not among these is lost.
        ``"tournament"`` needs no embedding: the options are asked in groups of ``keep``, the
        winners again, until one is left. It loses none beforehand, but asks about every option.

        Where the call is interrupted or fails, the rows that were done are in ``lab.last``;
        ``lab.answers`` stays as it is.

        Args:
            data: See ``Lab.predict``.
            question: One choice, plain or in ``{id: definition}``; the id may matter to hooks.
            keep: How many options are asked about at once.
            method: ``"embed"`` or ``"tournament"``.
            embedding: An ``EmbeddingGenerator``; ``None`` for the embedded all-MiniLM-L6-v2. The
                vectors of options are kept with the Lab, those of a model apart from another's.
            state: For a DataFrame: the column or columns that hold the states.
            errors: ``"raise"``, or ``"coerce"``: a row that fails has no answer and its error in
                the column ``error``.
            dedupe: Ask about equal states once.
            chunk_size: States per call of ``predict_batch``, where they share their options.
            hooks: Hooks for these calls.
            on_predict_start: Functions to run as start hooks after those.
            on_predict_end: Functions to run as end hooks after those.
            progress: Show a progress bar.
            **options: As in ``Lab.predict``; a Series gives each row its own.

        Returns:
            On the index of the data: ``answer``, a ``category`` of all options; ``confidence`` and
            ``answer_confidence`` among those of the last call about the state; ``kept``, these
            options as a list in JSON, the nearest first, or in a tournament the likeliest;
            ``n_asked``, how many options were asked about; with ``"embed"`` the ``rank`` of the
            answer by nearness (1 is the nearest) and its ``similarity``, with ``"tournament"`` the
            number of ``rounds``. ``attrs["jevlaya_shortlist"]`` says how many pairs of state and
            option the agent read, and how many that saved.

        Raises:
            InvalidInput: The question, the data or an option is not usable; nothing was loaded.
            EmbeddingError: Embedding failed.
            BaseException: What the calls raised.
        """
        size = check_count("keep", keep, least=2) or 20
        if method not in ("embed", "tournament"):
            raise InvalidOption(f"method is 'embed' or 'tournament', got {method!r}")
        if method == "tournament" and embedding is not None:
            raise InvalidOption("a tournament embeds nothing; leave embedding= out")
        many = ManyOptions(
            self.agent,
            self.recorder,
            question,
            data,
            state,
            coerce=_coerce(errors),
            dedupe=dedupe,
            chunk_size=check_count("chunk_size", chunk_size) or 1,
            hooks={
                "hooks": hooks,
                "on_predict_start": on_predict_start,
                "on_predict_end": on_predict_end,
            },
            options=options,
        )
        generator = check_embedding(embedding) if method == "embed" else None
        frame = ShortlistFrame(many, method, size)
        try:
            with tqdm(total=len(many.to_ask), unit="state", disable=not progress) as bar:
                if generator is not None:
                    self._among_the_nearest(many, frame, size, generator, bar)
                else:
                    _in_rounds(many, frame, size, bar)
        finally:
            made = self.last = frame.made()
        return made  # another thread may have set the attribute meanwhile

    def _among_the_nearest(
        self,
        many: ManyOptions,
        frame: ShortlistFrame,
        size: int,
        embedding: EmbeddingGenerator,
        bar: Any,
    ) -> None:
        places = many.to_ask
        try:
            vectors = self._options.of(many.option_texts, embedding)
        except EmbeddingError as exc:
            labels = [many.labels[i] for i in exc.positions]
            if not labels:
                raise
            raise type(exc)(
                f"the options {labels[:5]!r}: {exc.message}", exc.where, positions=exc.positions
            ) from exc
        states = [many.states[i] for i in places]
        found = embed_states(states, many.index[places], embedding, coerce=many.coerce)
        for row, wrong in found.wrong.items():
            many.wrong[places[row]] = wrong
        rows = [row for row in range(len(places)) if row not in found.wrong]
        nearest: dict[int, list[int]] = {}
        for start in range(0, len(rows), _BLOCK):
            block = rows[start : start + _BLOCK]
            some = Embeddings(
                found.vectors.vectors[[found.place[row] for row in block]], found.vectors.identity
            )
            similar = some.similarity(vectors)
            order = np.argsort(-similar, axis=1, kind="stable")[:, :size]
            for row, near, figures in zip(block, order, similar, strict=True):
                place = places[row]
                nearest[place] = near.tolist()
                frame.similarity[place] = {int(i): float(figures[i]) for i in near}
        bar.update(len(found.wrong))
        frame.kept.update(nearest)
        for outcomes in many.asked({place: sorted(near) for place, near in nearest.items()}):
            frame.take(outcomes)
            bar.update(len(outcomes))


def _in_rounds(many: ManyOptions, frame: ShortlistFrame, size: int, bar: Any) -> None:
    """Ask in groups until one option is left of each row."""
    left = {place: list(range(len(many.labels))) for place in many.to_ask}
    while left:
        frame.begin_round(left)
        groups = {place: _groups(options, size) for place, options in left.items()}
        final = {place for place, parts in groups.items() if len(parts) == 1}
        winners: dict[int, list[int]] = {place: [] for place in left}
        for number in range(max(map(len, groups.values()))):
            asked = {}
            for place, parts in groups.items():
                if number < len(parts) and place not in many.wrong:
                    if len(parts[number]) == 1 < len(parts):
                        winners[place] += parts[number]  # it has nobody to win against
                    else:
                        asked[place] = parts[number]
            for outcomes in many.asked(asked):
                frame.take(outcomes, final)
                bar.update(sum(place in final or place in many.wrong for place in outcomes))
                for place, answer in outcomes.items():
                    if not isinstance(answer, Exception) and answer.option is not None:
                        winners[place].append(answer.option)
        left = {
            place: chosen
            for place, chosen in winners.items()
            if place not in final and place not in many.wrong and chosen
        }


def _groups(options: Sequence[int], size: int) -> list[list[int]]:
    """As few groups as there can be, of sizes as equal as they can be."""
    n = -(-len(options) // size)
    return [part.tolist() for part in np.array_split(np.asarray(options), n)]


def _coerce(errors: str) -> bool:
    if errors not in ("raise", "coerce"):
        raise InvalidOption(f"errors is 'raise' or 'coerce', got {errors!r}")
    return errors == "coerce"
