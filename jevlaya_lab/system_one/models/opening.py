"""The network of a checkpoint, of whichever kind it is."""

from __future__ import annotations

from typing import Any

from jevlaya_lab.system_one.checkpoint import Checkpoint
from jevlaya_lab.system_one.devices import choose_device
from jevlaya_lab.system_one.models import Network

__all__ = ["open_network"]


def open_network(checkpoint: Checkpoint, device: Any) -> Network:
    """Build the network of a checkpoint and fill it.

    Args:
        checkpoint: A checkpoint that was read and checked.
        device: ``None`` for the best there is, or a name.

    Raises:
        CheckpointError: A file is missing, damaged, or does not fit the others.
        InvalidOption: There is no such device.
    """
    # Torch is loaded here and not at import, so that a script that only reads traces starts fast.
    place = choose_device(device)
    if checkpoint.architecture == "bi_encoder":
        from jevlaya_lab.system_one.models.bi_encoder import BiEncoder

        return BiEncoder.from_folder(checkpoint.folder, checkpoint.config, place)
    from jevlaya_lab.system_one.models.loading import load_cross_encoder

    return load_cross_encoder(checkpoint.folder, checkpoint.config, place)
