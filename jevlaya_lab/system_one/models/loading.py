"""Weights from safetensors files into networks, checked name by name and shape by shape."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from jevlaya_lab.system_one.errors import CheckpointInvalid
from jevlaya_lab.system_one.models.cross_encoder import CrossEncoder, DecisionModel
from jevlaya_lab.system_one.models.tokens import Tokens

__all__ = ["decision_model_files", "fill", "load_cross_encoder", "load_weights"]

_SHOWN: Final = 3


def load_cross_encoder(
    folder: Path, config: Mapping[str, Any], device: torch.device | str = "cpu"
) -> CrossEncoder:
    """Build the network of a checkpoint in laya's format and fill it; nothing is downloaded.

    Args:
        folder: The checkpoint folder.
        config: Its config, already checked.
        device: Where to put the network; weights are float32 whatever the file holds.

    Raises:
        CheckpointInvalid: The encoder is of an unknown kind, the tokenizer cannot be read, or the
            weights do not fit.
    """
    tokens = Tokens(folder / "tokenizer")
    encoder = _empty_encoder(folder / "encoder")
    if config.get("option_layout") == "parallel" and not _takes_layer_masks(encoder.config):
        raise CheckpointInvalid(
            f"checkpoint {str(folder)!r}: option_layout 'parallel' needs an encoder with masks for "
            "each kind of layer (ModernBERT, with transformers 5 or newer); this one is "
            f"{encoder.config.model_type!r}"
        )
    n_act = len(config.get("act_costs") or {}) + 1
    with torch.device("meta"):
        model = DecisionModel(_Placeholder(encoder.config), int(config["head_layers"]), n_act)
    model.encoder = encoder
    fill(model, load_weights(folder / "model.safetensors"), folder)
    return CrossEncoder(model, tokens, config, device)


def _takes_layer_masks(config: Any) -> bool:
    kinds = set(getattr(config, "layer_types", None) or ())
    return bool(kinds) and kinds <= {"full_attention", "sliding_attention"}


class _Placeholder(nn.Module):
    """Stands for the encoder while the other parts are laid out without memory."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config


def _empty_encoder(folder: Path) -> Any:
    # Loaded here only: transformers takes longer to import than most checkpoints take to load.
    from transformers import AutoConfig, AutoModel

    try:
        config = AutoConfig.from_pretrained(str(folder), trust_remote_code=False)
        with _Unset():
            build: Any = AutoModel.from_config
            return build(config, attn_implementation="sdpa", trust_remote_code=False)
    except (ValueError, KeyError, TypeError, OSError, AttributeError) as exc:
        own_code = "trust_remote_code" in str(exc) and "custom code" in str(exc)
        cause = "it asks for code of its own, which is never run here" if own_code else str(exc)
        raise CheckpointInvalid(
            f"{folder / 'config.json'} describes no encoder that transformers can build: {cause}"
        ) from exc


class _Unset(TorchFunctionMode):
    """Gives new parameters no memory, since every one of them is about to be replaced.

    What modules compute for themselves, such as positions, is made as usual. This holds for one
    thread only. What transformers has for the purpose swaps the functions of ``torch.nn.init`` for
    the whole process: modules that another thread makes meanwhile stay without weights, and two
    loads at a time leave the functions swapped for good.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.empty:  # what parameters are made with
            kwargs = {**kwargs, "device": "meta"}
        return func(*args, **kwargs)


def decision_model_files(
    model: DecisionModel, tokenizer: Path, config: Mapping[str, Any], *, half: bool = False
) -> dict[str, bytes]:
    """A decision model as the files of a checkpoint, for ``write_checkpoint``.

    Args:
        model: The network; it may be on any device.
        tokenizer: Folder with the files of its tokenizer.
        config: What goes into ``rl_agent_config.json``; ``head_layers`` and ``act_costs`` must fit.
        half: Whether weights are stored in half precision.

    Returns:
        Content by name, in the layout of ``laya``.
    """
    weights = {
        name: (tensor.half() if half and tensor.is_floating_point() else tensor).cpu().contiguous()
        for name, tensor in model.state_dict().items()
    }
    encoder_config: Any = model.encoder.config
    files = {
        "rl_agent_config.json": json.dumps(dict(config), indent=2).encode(),
        "model.safetensors": save(weights),
        "encoder/config.json": encoder_config.to_json_string(use_diff=False).encode(),
    }
    for path in sorted(tokenizer.iterdir()):
        if path.is_file():
            files[f"tokenizer/{path.name}"] = path.read_bytes()
    return files


def load_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, as float32.

    Raises:
        CheckpointInvalid: The file is damaged: cut short, padded, or no safetensors file at all.
    """
    try:
        tensors = load_file(path)
    except (SafetensorError, ValueError, OSError) as exc:
        raise CheckpointInvalid(f"{path} is damaged ({exc}); fetch or copy the file again") from exc
    return {
        name: tensor.float() if tensor.is_floating_point() else tensor
        for name, tensor in tensors.items()
    }


def fill(model: nn.Module, weights: Mapping[str, Tensor], where: Path) -> None:
    """Give a network its weights; every parameter gets one, and every weight is used.

    Raises:
        CheckpointInvalid: Naming the parameters that are missing, left over or of another shape.
    """
    wanted = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    wrong = [
        f"{name} is {list(weights[name].shape)}, the config asks for {list(shape)}"
        for name, shape in wanted.items()
        if name in weights and tuple(weights[name].shape) != shape
    ]
    missing = [name for name in wanted if name not in weights and name != "temperature"]
    left_over = [name for name in weights if name not in wanted]
    for what, names in (
        ("weights of another shape", wrong),
        ("missing weights", missing),
        ("weights that this network does not have", left_over),
    ):
        if names:
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            raise CheckpointInvalid(
                f"checkpoint {str(where)!r}: {what}: {'; '.join(names[:_SHOWN])}{more}; its config "
                "and its weights do not belong together"
            )
    given = dict(weights)
    given.setdefault("temperature", torch.ones(3))
    if "temperature" not in wanted:
        del given["temperature"]
    model.load_state_dict(given, assign=True)
    model.requires_grad_(False)
