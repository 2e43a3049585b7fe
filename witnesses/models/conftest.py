"""Models of several libraries, made from configurations with small random weights.

Nothing is downloaded. The session `models` of nox installs the libraries.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

import pytest
import torch
from torch import nn

os.environ["HF_HUB_OFFLINE"] = "1"

Made: TypeAlias = tuple[nn.Module, Callable[[Any], Any]]
"""A model, and the function that computes something with it."""

BF16, IDS, PIXELS = torch.bfloat16, torch.arange(8)[None] + 3, torch.ones(1, 3, 32, 32)
SMALL: dict[str, Any] = {
    **dict.fromkeys(["hidden_size", "n_embd", "d_model", "dim", "embedding_size"], 32),
    **dict.fromkeys(["attention_hidden_size", "word_embed_proj_dim"], 32),
    **dict.fromkeys(["intermediate_size", "d_ff", "hidden_dim", "ffn_dim"], 64),
    **dict.fromkeys(["encoder_ffn_dim", "decoder_ffn_dim", "max_position_embeddings"], 64),
    **dict.fromkeys(["n_positions", "max_seq_len", "max_source_positions"], 64),
    **dict.fromkeys(["max_target_positions"], 64),
    **dict.fromkeys(["num_hidden_layers", "n_layer", "n_layers", "num_layers"], 2),
    **dict.fromkeys(["encoder_layers", "decoder_layers", "num_key_value_heads"], 2),
    **dict.fromkeys(["num_experts_per_tok", "num_feat_extract_layers"], 2),
    **dict.fromkeys(["num_attention_heads", "n_head", "n_heads", "num_heads"], 4),
    **dict.fromkeys(["encoder_attention_heads", "decoder_attention_heads"], 4),
    **dict.fromkeys(["rotary_dim", "num_local_experts", "num_conv_pos_embeddings"], 4),
    **dict.fromkeys(["head_dim", "d_kv", "state_size", "patch_size", "sliding_window"], 8),
    **dict.fromkeys(["num_mel_bins", "embed_dim"], 16),
    **{"image_size": 32, "vocab_size": 128, "query_pre_attn_scalar": 8, "time_step_rank": 4},
    **{"pad_token_id": 0, "bos_token_id": 1, "decoder_start_token_id": 1, "eos_token_id": 2},
    **{"depths": [1, 1], "hidden_sizes": [16, 32], "num_conv_pos_embedding_groups": 2},
    **{"conv_dim": (16, 16), "conv_stride": (2, 2), "attention_types": [[["global", "local"], 1]]},
}
DECODERS = (
    "gpt2 gptj gpt_neo gpt_neox opt bloom llama mistral mixtral qwen2 qwen3 phi phi3 gemma gemma2 "
    "gemma3_text olmo stablelm starcoder2 codegen granite cohere mpt xglm rwkv"
).split()
ENCODERS = "bert roberta distilbert albert electra deberta-v2 mpnet xlm-roberta".split()
BOTH = "t5 bart mt5 pegasus marian".split()
VISION = "vit deit convnext dinov2".split()
SOUND = "wav2vec2 hubert".split()


def library(name: str) -> Any:
    """A library, or a skip of the test if it is not installed."""
    return pytest.importorskip(name)


def config_of(name: str) -> Any:
    """The configuration of an architecture, with small sizes."""
    config = library("transformers").AutoConfig
    known = config.for_model(name)
    sizes = {key: size for key, size in SMALL.items() if hasattr(known, key)}
    if name in SOUND:
        sizes["conv_kernel"] = (3, 3)
    return config.for_model(name, **sizes)


def transformer(name: str, head: str = "AutoModel") -> Made:
    model = getattr(library("transformers"), head).from_config(config_of(name))
    if name in BOTH:
        return model, lambda m: m(input_ids=IDS, decoder_input_ids=IDS)
    if name in VISION:
        return model, lambda m: m(pixel_values=PIXELS.to(m.dtype))
    if name in SOUND:
        return model, lambda m: m(input_values=torch.linspace(-1, 1, 400)[None].to(m.dtype))
    if name == "whisper":
        sound = torch.linspace(-1, 1, 2048).view(1, 16, 128)
        return model, lambda m: m(input_features=sound.to(m.dtype), decoder_input_ids=IDS)
    return model, lambda m: m(input_ids=IDS)


def clip() -> Made:
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    sizes |= {"num_attention_heads": 4, "projection_dim": 16}
    config = library("transformers").CLIPConfig(
        text_config={**sizes, "vocab_size": 128, "bos_token_id": 1, "eos_token_id": 2},
        vision_config={**sizes, "image_size": 32, "patch_size": 8},
        projection_dim=16,
    )
    model = library("transformers").CLIPModel(config)
    return model, lambda m: m(input_ids=IDS, pixel_values=PIXELS.to(m.dtype))


def adapted(kind: str, base: str = "llama", **options: Any) -> Made:
    """A model with adapters of PEFT."""
    peft = library("peft")
    model, call = transformer(base, "AutoModelForCausalLM")
    return peft.get_peft_model(model, getattr(peft, kind)(task_type="CAUSAL_LM", **options)), call


def linears() -> nn.Sequential:
    return nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64))


def on_numbers(m: Any) -> Any:
    """What a model of linear layers computes, in the type of its biases."""
    dtype = next(p.dtype for name, p in m.named_parameters() if name.endswith("bias"))
    return m(torch.linspace(-1, 1, 128).view(2, 64).to(dtype))


def torchao(
    make: str, module: str = "quantization", dtype: torch.dtype = BF16, **options: Any
) -> Made:
    config = getattr(library(f"torchao.{module}"), make)(**options)
    model = linears().to(dtype)
    library("torchao.quantization").quantize_(model, config)
    return model, on_numbers


def quanto(weights: str, frozen: bool, activations: str | None = None) -> Made:
    q, model = library("optimum.quanto"), linears()
    q.quantize(
        model, weights=getattr(q, weights), activations=activations and getattr(q, activations)
    )
    if frozen:
        q.freeze(model)
    return model, on_numbers


def diffuser(kind: str, call: Callable[[Any], Any], **options: Any) -> Made:
    return getattr(library("diffusers"), kind)(**options), call


def image(m: Any, channels: int = 3) -> torch.Tensor:
    return torch.linspace(-1, 1, channels * 256).view(1, channels, 16, 16).to(m.dtype)


BLOCKS: dict[str, Any] = {"block_out_channels": (8, 16), "norm_num_groups": 4}
TEXT = torch.linspace(-1, 1, 64).view(1, 8, 8)


def unet() -> Made:
    return diffuser(
        "UNet2DModel", lambda m: m(image(m), 3), sample_size=16, layers_per_block=1, **BLOCKS,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), attention_head_dim=4,
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip


def conditioned(kind: str) -> Made:
    """A model whose images are conditioned on texts, and a ControlNet also on another image."""
    is_control = kind == "ControlNetModel"
    options: dict[str, Any] = {"conditioning_embedding_out_channels": (8, 16)}
    if not is_control:
        options = {"sample_size": 16, "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D")}

    def call(m: Any) -> Any:
        more = {"controlnet_cond": PIXELS.to(m.dtype)} if is_control else {}
        return m(image(m, 4), 3, TEXT.to(m.dtype), **more)

    return diffuser(
        kind, call, layers_per_block=1, cross_attention_dim=8, attention_head_dim=4, **BLOCKS,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), **options,
    )  # fmt: skip


def autoencoder(kind: str, **options: Any) -> Made:
    blocks = {"down_block_types": ("DownEncoderBlock2D",) * 2}
    blocks |= {"up_block_types": ("UpDecoderBlock2D",) * 2}
    return diffuser(kind, lambda m: m(image(m)), latent_channels=4, **BLOCKS, **blocks, **options)


def dit() -> Made:
    sizes = {"num_layers": 2, "num_attention_heads": 2, "attention_head_dim": 8}
    labels = {"timestep": torch.tensor([3]), "class_labels": torch.tensor([1])}
    return diffuser(
        "DiTTransformer2DModel", lambda m: m(image(m, 4), **labels), in_channels=4, sample_size=16,
        norm_num_groups=4, **sizes,
    )  # fmt: skip


def sd3() -> Made:
    sizes = {"num_layers": 2, "num_attention_heads": 2, "attention_head_dim": 8, "sample_size": 16}

    def call(m: Any) -> Any:
        pooled, time = TEXT[:, 0].to(m.dtype), torch.tensor([3])
        return m(image(m, 4), TEXT.to(m.dtype), pooled, time)

    return diffuser(
        "SD3Transformer2DModel", call, in_channels=4, joint_attention_dim=8,
        pooled_projection_dim=8, caption_projection_dim=16, pos_embed_max_size=16, **sizes,
    )  # fmt: skip


def unet1d() -> Made:
    sound = torch.linspace(-1, 1, 64).view(1, 2, 32)
    return diffuser(
        "UNet1DModel", lambda m: m(sound.to(m.dtype), 3), sample_size=32, in_channels=2,
        out_channels=2, block_out_channels=(16, 32), layers_per_block=1, extra_in_channels=16,
        down_block_types=("DownBlock1DNoSkip", "DownBlock1D"), up_block_types=("UpBlock1D",) * 2,
    )  # fmt: skip


def hooked(how: str) -> Made:
    """A model with the hooks of accelerate, which move weights or inputs on each call."""
    accelerate, (model, call) = library("accelerate"), transformer("llama")
    if how == "empty":
        with accelerate.init_empty_weights():
            return transformer("llama")
    if how == "offload":
        accelerate.cpu_offload(model, torch.device("cpu"))
    elif how == "dispatch":
        accelerate.dispatch_model(model, {"": "cpu"}, force_hooks=True)
    else:
        hook = accelerate.hooks.AlignDevicesHook("cpu", io_same_device=True)
        accelerate.hooks.add_hook_to_module(model, hook)
    return model, call


def distributed(how: str) -> Made:
    """Shards of one process of two, whose communication is not real."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    mesh, model = init_device_mesh("cpu", (2,)), linears()
    if how == "fsdp2":
        from torch.distributed.fsdp import fully_shard

        fully_shard(model[0], mesh=mesh)
        fully_shard(model, mesh=mesh)
    else:
        from torch.distributed.tensor import Replicate, Shard, distribute_tensor

        placements = [Shard(0)] if how == "sharded" else [Replicate()]
        for part in (model[0], model[2]):
            for name, value in list(part.named_parameters()):
                placed = distribute_tensor(value.detach(), mesh, placements)
                setattr(part, name, nn.Parameter(placed))
    return model, lambda m: [p.to_local() for p in m.parameters()]


def gaussian_process(kind: str) -> Made:
    gp = library("gpytorch")
    x = torch.linspace(0, 1, 6, dtype=torch.float64)[:, None]

    class Exact(gp.models.ExactGP):  # type: ignore[misc,name-defined]  # a class of the library
        def __init__(self) -> None:
            likelihood = gp.likelihoods.GaussianLikelihood()
            super().__init__(x, x[:, 0].sin(), likelihood)
            self.mean, rbf = gp.means.ConstantMean(), gp.kernels.RBFKernel()
            self.kernel = gp.kernels.ScaleKernel(rbf)
            if kind == "deep":
                self.features = nn.Linear(1, 2)

        def forward(self, x: torch.Tensor) -> Any:
            x = self.features(x) if kind == "deep" else x
            return gp.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    class Sparse(gp.models.ApproximateGP):  # type: ignore[misc,name-defined]  # likewise
        def __init__(self) -> None:
            variation = gp.variational
            points = variation.CholeskyVariationalDistribution(3)
            super().__init__(variation.VariationalStrategy(self, x[:3].clone(), points))
            self.mean, self.kernel = gp.means.ConstantMean(), gp.kernels.RBFKernel()

        forward = Exact.forward

    def call(m: Any) -> Any:
        dtype = next(m.parameters()).dtype
        made = m(torch.tensor([[0.3], [0.7]], dtype=dtype))
        return [made.mean, made.covariance_matrix]

    return (Sparse() if kind == "sparse" else Exact()).double(), call


def bits(kind: str) -> Made:
    bnb = library("bitsandbytes")
    layer = {
        "8": partial(bnb.nn.Linear8bitLt, 64, 64, has_fp16_weights=False),
        "4": partial(bnb.nn.Linear4bit, 64, 64, compute_dtype=torch.float32),
        "nf4": partial(bnb.nn.LinearNF4, 64, 64),
    }[kind]()
    model = nn.Sequential(layer)
    return model.to("cpu"), lambda m: m(torch.linspace(-1, 1, 128).view(2, 64))


LINEARS = ["q_proj", "v_proj"]
ADAPTERS: list[tuple[str, str, dict[str, Any]]] = [
    ("LoRA", "LoraConfig", {"target_modules": LINEARS}),
    ("LoRA of gpt2", "LoraConfig", {"base": "gpt2"}),
    ("LoRA, weights saved", "LoraConfig", {"modules_to_save": ["lm_head"]}),
    ("LoRA of embeddings", "LoraConfig", {"target_modules": ["embed_tokens"]}),
    ("LoRA, rank stabilised", "LoraConfig", {"use_rslora": True}),
    ("DoRA", "LoraConfig", {"use_dora": True}),
    ("AdaLoRA", "AdaLoraConfig", {"total_step": 10}),
    ("LoHa", "LoHaConfig", {"target_modules": LINEARS}),
    ("LoKr", "LoKrConfig", {"target_modules": LINEARS}),
    ("IA3", "IA3Config", {}),
    ("VeRA", "VeraConfig", {"target_modules": ["q_proj"]}),
    ("OFT", "OFTConfig", {"target_modules": LINEARS, "oft_block_size": 8}),
    ("BOFT", "BOFTConfig", {"target_modules": LINEARS, "boft_block_size": 4}),
    ("HRA", "HRAConfig", {"target_modules": LINEARS}),
    ("FourierFT", "FourierFTConfig", {"target_modules": LINEARS, "n_frequency": 9}),
    ("norms", "LNTuningConfig", {"target_modules": ["norm"]}),
    ("prefix tuning", "PrefixTuningConfig", {"num_virtual_tokens": 4}),
    ("prompt tuning", "PromptTuningConfig", {"num_virtual_tokens": 4}),
    ("p-tuning", "PromptEncoderConfig", {"num_virtual_tokens": 4}),
]
QUANTISED: list[tuple[str, str, dict[str, Any]]] = [
    ("int8 weights", "Int8WeightOnlyConfig", {}),
    ("int8 weights of float32", "Int8WeightOnlyConfig", {"dtype": torch.float32}),
    ("int8 dynamic", "Int8DynamicActivationInt8WeightConfig", {}),
    ("int8 activations, intx weights", "Int8DynamicActivationIntxWeightConfig", {}),
    ("int4 weights", "IntxWeightOnlyConfig", {"weight_dtype": vars(torch)["int4"]}),
    ("intx weights", "IntxWeightOnlyConfig", {}),
    ("float8 weights", "Float8WeightOnlyConfig", {}),
]
MODELS: dict[str, Callable[[], Made]] = {
    **{f"transformers {n}": partial(transformer, n) for n in DECODERS + ENCODERS + BOTH},
    **{f"transformers {n}": partial(transformer, n) for n in [*VISION, *SOUND, "whisper"]},
    "transformers clip": clip,
    **{f"peft {name}": partial(adapted, kind, **options) for name, kind, options in ADAPTERS},
    **{
        f"torchao {name}": partial(torchao, config, **options)
        for name, config, options in QUANTISED
    },
    "torchao MX": partial(
        torchao, "MXDynamicActivationMXWeightConfig", "prototype.mx_formats.inference_workflow"
    ),
    "torchao NVFP4": partial(
        torchao, "NVFP4WeightOnlyConfig", "prototype.mx_formats.inference_workflow"
    ),
    **{
        f"quanto {weights}{', not frozen' * (not frozen)}": partial(quanto, weights, frozen)
        for weights in ("qint8", "qint4", "qint2", "qfloat8_e4m3fn", "qfloat8_e5m2")
        for frozen in (True, False)[: 1 + (weights == "qint8")]
    },
    "quanto qint8, activations": partial(quanto, "qint8", True, "qint8"),
    "diffusers UNet2D": unet,
    "diffusers UNet2DCondition": partial(conditioned, "UNet2DConditionModel"),
    "diffusers ControlNet": partial(conditioned, "ControlNetModel"),
    "diffusers AutoencoderKL": partial(autoencoder, "AutoencoderKL"),
    "diffusers VQ": partial(autoencoder, "VQModel", num_vq_embeddings=16),
    "diffusers DiT": dit,
    "diffusers SD3": sd3,
    "diffusers UNet1D": unet1d,
    **{
        f"accelerate {how}": partial(hooked, how)
        for how in ("offload", "dispatch", "align", "empty")
    },
    **{
        f"distributed {how}": partial(distributed, how)
        for how in ("sharded", "replicated", "fsdp2")
    },
    **{f"gpytorch {kind}": partial(gaussian_process, kind) for kind in ("exact", "deep", "sparse")},
    **{f"bitsandbytes {kind}": partial(bits, kind) for kind in ("8", "4", "nf4")},
}


@pytest.fixture(params=MODELS)
def made(request: pytest.FixtureRequest) -> Iterator[Made]:
    torch.manual_seed(0)
    model, call = MODELS[request.param]()
    yield model.eval(), call
    with suppress(Exception):
        torch.distributed.destroy_process_group()
