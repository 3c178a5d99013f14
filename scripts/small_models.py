# SPDX-License-Identifier: Apache-2.0
"""Small models of many kinds for make_model_fixtures.py, each a Fixture: what makes it, a batch of it, and its exports."""
import math
from dataclasses import dataclass
from typing import Callable

import torch
import torch.nn.functional as F
import transformers
from torch import nn

ROWS, CLASSES = 4, 5


@dataclass
class Fixture:
    """`build` gives a module that takes the tensors of `batch` in their order, and returns logits, for which labels are added, or
    its loss. `exports`: noopt and dynamo, without and with the exporter's optimizer, and legacy, by TorchScript; with _dyn of any batch."""
    build: Callable
    batch: Callable  # a generator of random numbers -> {input: tensor}
    exports: tuple = ("noopt", "legacy")
    result: str = "loss"
    train: bool = False  # in train() mode
    rounding: tuple = ("k_proj.bias", "key.bias")  # ends of names of parameters whose gradient is rounding alone


def images(g, channels=3, size=12):
    return torch.randn(ROWS, channels, size, size, generator=g)


def labels(g, classes=CLASSES):
    return torch.randint(0, classes, (ROWS,), generator=g)


def ids(g, vocabulary, length, first=0):
    return torch.randint(first, vocabulary, (ROWS, length), generator=g)


def lengths(length):
    """One for each row, from all down to 2."""
    return torch.tensor([length - k * (length - 2) // (ROWS - 1) for k in range(ROWS)])


def mask_of_lengths(length):
    return (torch.arange(length)[None] < lengths(length)[:, None]).long()


class Wrapped(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model


# ---- images -----------------------------------------------------------------------------------------------------------------


class Residual(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after)
        self.conv2, self.bn2 = nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after)
        self.downsample = None
        if stride != 1 or before != after:
            self.downsample = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1, self.maxpool = nn.Conv2d(3, 6, 3, 2, 1, bias=False), nn.BatchNorm2d(6), nn.MaxPool2d(3, 2, 1)
        self.layer1 = nn.Sequential(Residual(6, 6, 1), Residual(6, 6, 1))
        self.layer2 = nn.Sequential(Residual(6, 8, 2))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(8, CLASSES)

    def forward(self, image):
        x = self.maxpool(F.relu(self.bn1(self.conv1(image))))
        return self.fc(self.avgpool(self.layer2(self.layer1(x))).flatten(1))


class ImageLogits(Wrapped):
    def forward(self, image):
        return self.model(pixel_values=image).logits


def convnext():
    return ImageLogits(transformers.ConvNextForImageClassification(transformers.ConvNextConfig(
        num_stages=2, hidden_sizes=[8, 12], depths=[2, 1], patch_size=2, image_size=12, num_labels=CLASSES)))


def vit():
    return ImageLogits(transformers.ViTForImageClassification(transformers.ViTConfig(
        hidden_size=12, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, image_size=12, patch_size=4, num_labels=CLASSES,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)))


class Twice(nn.Sequential):
    def __init__(self, before, after):
        super().__init__(nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(2, after), nn.SiLU(),
                         nn.Conv2d(after, after, 3, padding=1), nn.GroupNorm(2, after), nn.SiLU())


class UNet(nn.Module):
    """One level goes up by a transposed convolution, the other by bilinear interpolation."""

    def __init__(self):
        super().__init__()
        self.inc, self.down1, self.down2 = Twice(2, 4), Twice(4, 6), Twice(6, 8)
        self.pool = nn.MaxPool2d(2)
        self.up1, self.dec1 = nn.ConvTranspose2d(8, 6, 2, stride=2), Twice(12, 6)
        self.up2, self.dec2 = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False), Twice(10, 4)
        self.outc = nn.Conv2d(4, 3, 1)

    def forward(self, image, target):
        a = self.inc(image)
        b = self.down1(self.pool(a))
        c = self.down2(self.pool(b))
        y = self.dec1(torch.cat([self.up1(c), b], 1))
        y = self.dec2(torch.cat([self.up2(y), a], 1))
        return F.cross_entropy(self.outc(y), target)


class VAE(nn.Module):
    """What torch would draw is an input."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 4, 3, 2, 1), nn.ReLU(), nn.Conv2d(4, 6, 3, 2, 1), nn.ReLU(), nn.Flatten())
        self.mu, self.logvar = nn.Linear(24, 4), nn.Linear(24, 4)
        self.up = nn.Linear(4, 24)
        self.decoder = nn.Sequential(nn.ConvTranspose2d(6, 4, 3, 2, 1, 1), nn.ReLU(), nn.ConvTranspose2d(4, 1, 3, 2, 1, 1))

    def forward(self, image, noise):
        h = self.encoder(image)
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.exp(0.5 * logvar) * noise
        y = self.decoder(F.relu(self.up(z)).view(-1, 6, 2, 2))
        missed = F.binary_cross_entropy_with_logits(y, image, reduction="sum")
        kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        return (missed + kl) / image.shape[0]


class ImageTextLoss(Wrapped):
    def forward(self, input_ids, attention_mask, image):
        return self.model(input_ids=input_ids, attention_mask=attention_mask, pixel_values=image, return_loss=True).loss


def clip():
    text = dict(vocab_size=24, hidden_size=8, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, max_position_embeddings=6,
                bos_token_id=1, eos_token_id=23, pad_token_id=0, attention_dropout=0.0)
    vision = dict(hidden_size=8, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=8, patch_size=4,
                  attention_dropout=0.0)
    return ImageTextLoss(transformers.CLIPModel(transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=8)))


def clip_batch(g):
    text, mask = ids(g, 23, 6, first=2), mask_of_lengths(6)
    text = torch.where(mask == 0, 0, text)
    text[:, 0] = 1
    text[torch.arange(ROWS), lengths(6) - 1] = 23  # where it ends
    return {"input_ids": text, "attention_mask": mask, "image": images(g, 3, 8)}


# ---- sequences --------------------------------------------------------------------------------------------------------------


class Whisper(nn.Module):
    """The encoder, which tells what is heard."""

    def __init__(self):
        super().__init__()
        self.encoder = transformers.WhisperModel(transformers.WhisperConfig(
            vocab_size=8, num_mel_bins=6, d_model=12, encoder_layers=2, encoder_attention_heads=2, encoder_ffn_dim=20, decoder_layers=1,
            decoder_attention_heads=1, decoder_ffn_dim=4, max_source_positions=8, max_target_positions=4, pad_token_id=0, bos_token_id=1,
            eos_token_id=2, decoder_start_token_id=1, dropout=0.0)).encoder
        self.head = nn.Linear(12, CLASSES)

    def forward(self, mel):
        return self.head(self.encoder(mel).last_hidden_state.mean(1))


class SequenceLoss(Wrapped):
    def forward(self, input_ids, attention_mask, labels):
        return self.model(input_ids=input_ids, attention_mask=attention_mask, labels=labels).loss


def t5():
    return SequenceLoss(transformers.T5ForConditionalGeneration(transformers.T5Config(
        vocab_size=24, d_model=8, d_kv=4, d_ff=16, num_layers=2, num_decoder_layers=1, num_heads=2, relative_attention_num_buckets=8,
        relative_attention_max_distance=16, dropout_rate=0.0, decoder_start_token_id=0, pad_token_id=0, use_cache=False, attn_implementation="eager")))


def t5_batch(g):
    mask, target = mask_of_lengths(7), ids(g, 24, 5, first=1)
    target[1, 3:] = -100
    return {"input_ids": torch.where(mask == 0, 0, ids(g, 24, 7, first=1)), "attention_mask": mask, "labels": target}


class TextLogits(Wrapped):
    def forward(self, input_ids, attention_mask):
        return self.model(input_ids=input_ids, attention_mask=attention_mask).logits


def bert():
    return TextLogits(transformers.BertForSequenceClassification(transformers.BertConfig(
        vocab_size=24, hidden_size=12, num_hidden_layers=2, num_attention_heads=2, intermediate_size=20, max_position_embeddings=8,
        num_labels=CLASSES, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, pad_token_id=0)))


def padded_text(g):
    mask = mask_of_lengths(7)
    return {"input_ids": torch.where(mask == 0, 0, ids(g, 24, 7, first=1)), "attention_mask": mask}


class Packed(nn.Module):
    """An LSTM that sees as much of each row as there is, in both directions."""

    def __init__(self):
        super().__init__()
        self.embed, self.lstm = nn.Embedding(24, 6), nn.LSTM(6, 8, batch_first=True, bidirectional=True)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, input_ids, lengths):
        x = self.embed(input_ids)
        start = x.new_zeros(2, x.shape[0], 8)  # TorchScript's exporter wants to be told
        _, (h, _) = self.lstm(nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True), (start, start))
        return self.head(torch.cat([h[0], h[1]], 1))


class Masked(nn.Module):
    """An LSTM of two layers, of whose results those behind a row's end count nothing."""

    def __init__(self):
        super().__init__()
        self.embed, self.lstm, self.head = nn.Embedding(24, 6), nn.LSTM(6, 8, 2, batch_first=True), nn.Linear(8, CLASSES)

    def forward(self, input_ids, lengths):
        y, _ = self.lstm(self.embed(input_ids))
        mask = (torch.arange(y.shape[1])[None] < lengths[:, None]).unsqueeze(2)
        return self.head((y * mask).sum(1) / lengths[:, None])


class GRU(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.head = nn.GRU(5, 8, batch_first=True, bidirectional=True), nn.Linear(16, CLASSES)

    def forward(self, x):
        y, h = self.gru(x)
        return self.head(torch.tanh(y[:, -1]) + y.mean(1) + torch.cat([h[0], h[1]], 1))


class Cells(nn.Module):
    """A GRU in a loop of Python."""

    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.GRUCell(5, 8), nn.Linear(8, 4)

    def forward(self, x, y):
        h, missed = x.new_zeros(x.shape[0], 8), 0.0
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
            missed = missed + F.mse_loss(self.head(h), y[:, t])
        return missed / x.shape[1]


class CausalLoss(Wrapped):
    def forward(self, input_ids, labels):
        return self.model(input_ids=input_ids, labels=labels, use_cache=False).loss


def mamba():
    return CausalLoss(transformers.MambaForCausalLM(transformers.MambaConfig(
        vocab_size=24, hidden_size=8, state_size=4, num_hidden_layers=1, expand=2, conv_kernel=4, time_step_rank=2, pad_token_id=0)))


def causal_batch(g):
    tokens = ids(g, 24, 6)
    target = tokens.clone()
    target[0, 3] = -100
    return {"input_ids": tokens, "labels": target}


def mixtral():
    model = transformers.MixtralForCausalLM(transformers.MixtralConfig(
        vocab_size=24, hidden_size=8, intermediate_size=12, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
        max_position_embeddings=8, num_local_experts=3, num_experts_per_tok=2))
    model.set_experts_implementation("batched_mm")  # the others are not exported
    return CausalLoss(model)


class MaskedExperts(nn.Module):
    """Experts as they are written where shapes are fixed: all see every token, and masks of the chosen ones say whose results count."""

    def __init__(self, width, experts):
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(width, 12), nn.GELU(), nn.Linear(12, width)) for _ in range(experts))

    def forward(self, x):
        weights, topk_idx = torch.topk(self.router(x).softmax(dim=-1), 2, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            mask = topk_idx == e
            out = out + torch.where(mask.any(dim=-1, keepdim=True), expert(x), 0.0) * (weights * mask).sum(dim=-1, keepdim=True)
        return out


class CombinedExperts(nn.Module):
    """Weights of all experts in one tensor, dispatched and combined by one-hot products; the second result asks for an even load."""

    def __init__(self, width, experts):
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.up, self.down = nn.Parameter(torch.randn(experts, width, 12) * 0.2), nn.Parameter(torch.randn(experts, 12, width) * 0.2)

    def forward(self, x):
        share = F.softmax(self.router(x), dim=-1)
        weights, topk_idx = share.topk(2)
        chosen = F.one_hot(topk_idx, share.shape[-1]).to(x.dtype)
        combine = torch.einsum("btk,btke->bte", weights / weights.sum(-1, keepdim=True), chosen)
        y = torch.einsum("bteh,ehd->bted", F.silu(torch.einsum("btd,edh->bteh", x, self.up)), self.down)
        load = share.shape[-1] * (chosen.sum(2).mean((0, 1)) * share.mean((0, 1))).sum()
        return torch.einsum("bte,bted->btd", combine, y), load


class ExpertsGPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.ln_1, self.ln_2 = nn.Embedding(24, 8), nn.LayerNorm(8), nn.LayerNorm(8)
        self.masked, self.combined, self.lm_head = MaskedExperts(8, 3), CombinedExperts(8, 4), nn.Linear(8, 24, bias=False)

    def forward(self, input_ids, labels):
        x = self.tokens(input_ids)
        x = x + self.masked(self.ln_1(x))
        y, load = self.combined(self.ln_2(x))
        logits = self.lm_head(x + y)
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100) + 0.01 * load


class Head(nn.Module):
    def __init__(self, width, size, length):
        super().__init__()
        self.key, self.query, self.value = (nn.Linear(width, size, bias=False) for _ in range(3))
        self.register_buffer("tril", torch.tril(torch.ones(length, length)))

    def forward(self, x):
        k, q, t = self.key(x), self.query(x), x.shape[1]
        w = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        w = w.masked_fill(self.tril[:t, :t] == 0, float("-inf"))
        return F.softmax(w, dim=-1) @ self.value(x)


class HeadsBlock(nn.Module):
    def __init__(self, width, heads, length):
        super().__init__()
        self.heads, self.proj = nn.ModuleList(Head(width, width // heads, length) for _ in range(heads)), nn.Linear(width, width)
        self.ffwd = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        y = self.ln1(x)
        x = x + self.proj(torch.cat([h(y) for h in self.heads], dim=-1))
        return x + self.ffwd(self.ln2(x))


class HeadsGPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(24, 12), nn.Embedding(6, 12)
        self.blocks = nn.Sequential(*(HeadsBlock(12, 3, 6) for _ in range(2)))
        self.ln_f, self.lm_head = nn.LayerNorm(12), nn.Linear(12, 24)

    def forward(self, input_ids, labels):
        x = self.tokens(input_ids) + self.positions(torch.arange(input_ids.shape[1]))
        logits = self.lm_head(self.ln_f(self.blocks(x)))
        b, t, c = logits.shape
        return F.cross_entropy(logits.view(b * t, c), labels.view(b * t))


class Pairs(nn.Module):
    """A layer whose positions are complex numbers that pairs of features are multiplied with, in heads that share keys."""

    def __init__(self, width, heads, groups):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.wq, self.wo = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.wk, self.wv = nn.Linear(width, groups * self.size, bias=False), nn.Linear(width, groups * self.size, bias=False)
        self.norm, self.w1, self.w2 = nn.RMSNorm(width, 1e-5), nn.Linear(width, 2 * width, bias=False), nn.Linear(width, 2 * width, bias=False)
        self.w3, self.behind = nn.Linear(2 * width, width, bias=False), nn.RMSNorm(width, 1e-5)

    def turned(self, x, freqs_cis):
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * freqs_cis.view(1, x.shape[1], 1, -1)).flatten(3).type_as(x)

    def forward(self, x, freqs_cis):
        b, t, c = x.shape
        y = self.norm(x)
        q = self.turned(self.wq(y).view(b, t, self.heads, self.size), freqs_cis)
        k = self.turned(self.wk(y).view(b, t, self.groups, self.size), freqs_cis)
        v = self.wv(y).view(b, t, self.groups, self.size)
        y = F.scaled_dot_product_attention(*(s.transpose(1, 2) for s in (q, k, v)), is_causal=True, enable_gqa=True)
        x = x + self.wo(y.transpose(1, 2).reshape(b, t, c))
        y = self.behind(x)
        return x + self.w3(F.silu(self.w1(y)) * self.w2(y))


class ComplexLlama(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok_embeddings, self.layers = nn.Embedding(24, 16), nn.ModuleList(Pairs(16, 4, 2) for _ in range(2))
        self.norm, self.output = nn.RMSNorm(16, 1e-5), nn.Linear(16, 24, bias=False)
        rates = 1.0 / 10000.0 ** (torch.arange(0, 4, 2).float() / 4)
        angles = torch.outer(torch.arange(12.0), rates)
        self.register_buffer("freqs_cis", torch.polar(torch.ones_like(angles), angles), persistent=False)

    def forward(self, input_ids, labels):
        x = self.tok_embeddings(input_ids)
        for layer in self.layers:
            x = layer(x, self.freqs_cis[:input_ids.shape[1]])
        return F.cross_entropy(self.output(self.norm(x)).flatten(0, 1), labels.flatten())


class Translator(nn.Module):
    """torch.nn.Transformer, with positions that are computed."""

    def __init__(self):
        super().__init__()
        self.source, self.target = nn.Embedding(24, 8), nn.Embedding(24, 8)
        self.transformer = nn.Transformer(8, 2, 1, 1, 12, dropout=0.0, batch_first=True)
        self.head = nn.Linear(8, 24)
        place, rate = torch.arange(8.0)[:, None], torch.exp(torch.arange(0, 8, 2) * (-math.log(10000.0) / 8))
        self.register_buffer("positions", torch.stack([torch.sin(place * rate), torch.cos(place * rate)], 2).flatten(1))

    def forward(self, source, target, labels):
        s, t = source.shape[1], target.shape[1]
        y = self.transformer(self.source(source) * 8 ** 0.5 + self.positions[:s], self.target(target) * 8 ** 0.5 + self.positions[:t],
                             tgt_mask=nn.Transformer.generate_square_subsequent_mask(t), src_key_padding_mask=source == 0,
                             memory_key_padding_mask=source == 0, tgt_is_causal=True)
        return F.cross_entropy(self.head(y).flatten(0, 1), labels.flatten(), ignore_index=0)


def translator_batch(g):
    whole, target = ids(g, 24, 6, first=1), ids(g, 24, 6, first=1)
    target[2, 4:] = 0
    return {"source": torch.where(mask_of_lengths(6) == 0, 0, whole), "target": target[:, :-1].contiguous(), "labels": target[:, 1:].contiguous()}


# ---- tables and graphs ------------------------------------------------------------------------------------------------------


class DLRM(nn.Module):
    """Bags of categories beside numbers, and how each pair of them goes together."""

    def __init__(self):
        super().__init__()
        self.bags = nn.ModuleList([nn.EmbeddingBag(20, 6, mode="sum"), nn.EmbeddingBag(12, 6, mode="mean"), nn.EmbeddingBag(7, 6, mode="sum")])
        self.bottom = nn.Sequential(nn.Linear(4, 10), nn.ReLU(), nn.Linear(10, 6), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(6 + 6, 10), nn.ReLU(), nn.Linear(10, 1))

    def forward(self, dense, first, second, third, clicked):
        x = self.bottom(dense)
        each = torch.stack([x] + [bag(i) for bag, i in zip(self.bags, (first, second, third))], 1)
        pairs = torch.bmm(each, each.transpose(1, 2))
        li, lj = torch.tril_indices(4, 4, offset=-1)
        return F.binary_cross_entropy_with_logits(self.top(torch.cat([x, pairs[:, li, lj]], 1)).squeeze(1), clicked)


class GraphNet(nn.Module):
    """Messages along edges, summed where they arrive: a graph convolution by index_add, attention by scatter_add."""

    def __init__(self):
        super().__init__()
        self.conv, self.message = nn.Linear(6, 8), nn.Linear(16, 8)
        self.score, self.head = nn.Linear(16, 1, bias=False), nn.Linear(8, CLASSES)

    def forward(self, x, source, target, labels):
        n = x.shape[0]
        degree = x.new_ones(n).index_add(0, target, x.new_ones(target.shape[0]))
        h = self.conv(x)
        weight = (degree[source] * degree[target]).rsqrt()
        h = F.relu(h / degree[:, None] + torch.zeros_like(h).index_add(0, target, h[source] * weight[:, None]))
        pair = torch.cat([h[source], h[target]], 1)
        score = torch.exp(F.leaky_relu(self.score(pair), 0.2))
        total = x.new_zeros(n, 1).scatter_add(0, target[:, None], score)
        sent = torch.tanh(self.message(pair)) * score / total[target]
        h = h + torch.zeros_like(h).scatter_add(0, target[:, None].expand(-1, 8), sent)
        return F.cross_entropy(self.head(h), labels)


def graph_batch(g):
    return {"x": torch.randn(7, 6, generator=g), "source": torch.randint(0, 7, (12,), generator=g),
            "target": torch.randint(0, 7, (12,), generator=g), "labels": torch.randint(0, CLASSES, (7,), generator=g)}


def image_labels(size=12):
    return lambda g: {"image": images(g, 3, size), "labels": labels(g)}


def bits(g, *shape):
    return (torch.rand(*shape, generator=g) < 0.5).float()


FIXTURES = {
    "resnet_eval": Fixture(ResNet, image_labels(), ("noopt_dyn", "legacy"), "logits"),
    "resnet_train": Fixture(ResNet, image_labels(), result="logits", train=True),
    "convnext": Fixture(convnext, image_labels(), result="logits"),
    "vit": Fixture(vit, image_labels(), ("noopt_dyn", "dynamo_dyn", "legacy"), "logits"),
    "unet": Fixture(UNet, lambda g: {"image": images(g, 2, 8), "target": torch.randint(0, 3, (ROWS, 8, 8), generator=g)},
                    ("noopt", "dynamo", "legacy")),
    "vae": Fixture(VAE, lambda g: {"image": bits(g, ROWS, 1, 8, 8), "noise": torch.randn(ROWS, 4, generator=g)}, ("dynamo", "legacy")),
    "clip": Fixture(clip, clip_batch),
    "whisper": Fixture(Whisper, lambda g: {"mel": torch.randn(ROWS, 6, 16, generator=g), "labels": labels(g)}, result="logits"),
    "t5": Fixture(t5, t5_batch),
    "bert": Fixture(bert, lambda g: {**padded_text(g), "labels": labels(g)}, result="logits"),
    "lstm_packed": Fixture(Packed, lambda g: {"input_ids": ids(g, 24, 7), "lengths": lengths(7), "labels": labels(g)},
                           ("legacy", "legacy_dyn"), "logits"),
    "lstm_masked": Fixture(Masked, lambda g: {"input_ids": ids(g, 24, 7), "lengths": lengths(7), "labels": labels(g)}, result="logits"),
    "gru": Fixture(GRU, lambda g: {"x": torch.randn(ROWS, 6, 5, generator=g), "labels": labels(g)}, result="logits"),
    "gru_cells": Fixture(Cells, lambda g: {"x": torch.randn(ROWS, 6, 5, generator=g), "y": torch.randn(ROWS, 6, 4, generator=g)},
                         ("dynamo", "legacy")),
    "mamba": Fixture(mamba, causal_batch),
    "mixtral": Fixture(mixtral, causal_batch, ("noopt", "dynamo")),
    "experts": Fixture(ExpertsGPT, causal_batch, ("noopt",)),
    "gpt_heads": Fixture(HeadsGPT, causal_batch),
    "llama_complex": Fixture(ComplexLlama, causal_batch, ()),  # exporters of ONNX take no complex numbers
    "transformer": Fixture(Translator, translator_batch),
    "dlrm": Fixture(DLRM, lambda g: {"dense": torch.randn(ROWS, 4, generator=g), "first": ids(g, 20, 3), "second": ids(g, 12, 4),
                                     "third": ids(g, 7, 2), "clicked": bits(g, ROWS)}, ("dynamo", "legacy")),
    "graph_net": Fixture(GraphNet, graph_batch, ("noopt", "dynamo")),
}
