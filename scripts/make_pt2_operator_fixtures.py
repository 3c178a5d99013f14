#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/fixtures/pt2_operators: calls of PyTorch's functions in groups, each a program of torch.export that gives what they give
and a sum of it all, with PyTorch's numbers in fp64 and their gradients by the inputs. Needs the versions of fixture_files.py.

  python scripts/make_pt2_operator_fixtures.py [--out tests/fixtures/pt2_operators]

GROUP.pt2; GROUP.safetensors: in.INPUT, out.NAME and grad.INPUT (booleans as integers).
"""
import inspect, os

import torch
import torch.nn.functional as F
import transformers.integrations.moe  # registers an operator

from torch._higher_order_ops import scan, while_loop

import fixture_files
from make_pt2_fixtures import export

G = torch.Generator().manual_seed(5)


def normal(*shape):
    return torch.randn(*shape, generator=G)


def positive(*shape):
    return torch.rand(*shape, generator=G) + 0.5


def share(*shape):
    return 0.05 + 0.9 * torch.rand(*shape, generator=G)


def integers(high, *shape):
    return torch.randint(0, high, shape, generator=G)


def bits(*shape):
    return torch.rand(*shape, generator=G) < 0.5


def groups():
    """Name -> inputs and functions of them."""
    out = {}
    out["elementwise"] = ({"x": normal(2, 3, 4), "y": normal(2, 3, 4), "z": positive(2, 3, 4), "row": normal(4), "n": integers(7, 2, 3, 4) + 1}, dict(
        add=lambda x, y: torch.add(x, y, alpha=0.5), add_number=lambda x: x + 2, sub=lambda x, row: x - row, rsub=lambda x: 3 - x,
        mul_integers=lambda n: n * 3, mixed=lambda x, n: x * n, div=lambda x, z: x / z, div_integers=lambda n: n / 2,
        div_floor=lambda x, z: torch.div(x, z, rounding_mode="floor"), div_trunc=lambda x, z: torch.div(x, z, rounding_mode="trunc"),
        floor_divide=lambda n: (n - 4) // 3, remainder=lambda n: (n - 4) % 3, fmod=lambda n: torch.fmod(n - 4, 3), remainder_floats=lambda x: x % 0.7,
        pow=lambda z: z ** 2.5, pow_two=lambda x: x ** 2, pow_base=lambda x: 2.0 ** x, pow_tensors=lambda z, y: z ** y, pow_integers=lambda n: n ** 2,
        abs=torch_of("abs"), neg=lambda x: -x, sign=lambda x: torch.sign(x), exp=torch_of("exp"), exp2=torch_of("exp2"), expm1=torch_of("expm1"),
        log=lambda z: torch.log(z), log2=lambda z: torch.log2(z), log10=lambda z: torch.log10(z), log1p=lambda z: torch.log1p(z),
        sqrt=lambda z: z.sqrt(), rsqrt=lambda z: z.rsqrt(), reciprocal=lambda z: z.reciprocal(), square=lambda x: x.square(), sin=torch_of("sin"),
        cos=torch_of("cos"), tan=torch_of("tan"), sinh=torch_of("sinh"), cosh=torch_of("cosh"), tanh=torch_of("tanh"), sigmoid=torch_of("sigmoid"),
        erf=torch_of("erf"), erfc=torch_of("erfc"), acosh=lambda z: torch.acosh(z + 1), atanh=lambda z: torch.atanh(z / 2), floor=torch_of("floor"), ceil=torch_of("ceil"), round=torch_of("round"), trunc=torch_of("trunc"),
        frac=torch_of("frac"), rounded=lambda x: torch.round(x, decimals=1), eq=lambda n: n == 3, ne=lambda n: n != 3, lt=lambda x, y: x < y,
        le=lambda n: n <= 2, gt=lambda x: x > 0.5, ge=lambda x, n: x >= n, and_=lambda x, y: (x > 0) & (y > 0), or_=lambda x, y: (x > 0) | (y > 0),
        xor_=lambda x, y: (x > 0) ^ (y > 0), not_=lambda x: ~(x > 0), bits=lambda n: n & 3, inverted=lambda n: ~n,
        logical=lambda n, x: torch.logical_and(n - 1, x > 0), is_nan=lambda x: torch.isnan(x), is_finite=lambda x: torch.isfinite(x),
        is_inf=lambda x: torch.isinf(x), maximum=lambda x, y: torch.maximum(x, y), minimum=lambda x, y: torch.minimum(x, y),
        clamp=lambda x: x.clamp(-0.5, 0.7), clamp_low=lambda x: x.clamp(min=0.1), clamp_tensors=lambda x, y, z: torch.clamp(x, y, z),
        where=lambda x, y: torch.where(x > 0, x, y), where_number=lambda x: torch.where(x > 0, x, -1.0), masked_fill=lambda x: x.masked_fill(x > 0, 9.0),
        lerp=lambda x, y: torch.lerp(x, y, 0.3), addcmul=lambda x, y, z: torch.addcmul(x, y, z, value=0.5),
        addcdiv=lambda x, y, z: torch.addcdiv(x, y, z, value=0.5), logaddexp=lambda x, y: torch.logaddexp(x, y),
        xlogy=lambda x, z: torch.xlogy(x, z), nan_to_num=lambda x: torch.nan_to_num(x), detached=lambda x, y: x.detach() * y,
        added_in_place=lambda x, y: (x * 2).add_(y).mul_(3), to_integers=lambda x: x.to(torch.int64), to_floats=lambda n: n.float() / 2,
        to_bool=lambda n: (n - 1).bool()))
    out["activations"] = ({"x": normal(2, 3, 4), "w": positive(3)}, dict(
        relu=F.relu, relu6=lambda x: F.relu6(4 * x), gelu=F.gelu, gelu_tanh=lambda x: F.gelu(x, approximate="tanh"), silu=F.silu, mish=F.mish,
        softplus=F.softplus, softplus_beta=lambda x: F.softplus(x, beta=2), logsigmoid=F.logsigmoid, leaky_relu=F.leaky_relu,
        prelu=lambda x, w: F.prelu(x, w), elu=F.elu, selu=F.selu, celu=lambda x: F.celu(x, 0.7), hardtanh=F.hardtanh, hardsigmoid=lambda x: F.hardsigmoid(3 * x),
        hardswish=lambda x: F.hardswish(3 * x), threshold=lambda x: F.threshold(x, 0.1, -2.0), softshrink=F.softshrink, hardshrink=F.hardshrink,
        softsign=F.softsign, tanhshrink=F.tanhshrink, glu=lambda x: F.glu(x, -1), sinc=lambda x: torch.sinc(x), logit=lambda w: torch.logit(w / 2),
        softmax=lambda x: F.softmax(x, 1), log_softmax=lambda x: F.log_softmax(x, -1), softmin=lambda x: F.softmin(x, -1)))
    out["shapes"] = ({"x": normal(2, 3, 4), "y": normal(2, 3, 4), "image": normal(1, 8, 2, 3)}, dict(
        view=lambda x: x.view(6, 4), reshape=lambda x: x.reshape(-1, 2), flatten=lambda x: x.flatten(1), unflatten=lambda x: x.unflatten(2, (2, 2)),
        unsqueeze=lambda x: x.unsqueeze(1), squeeze=lambda x: x[:, :1].squeeze(1), transpose=lambda x: x.transpose(0, 2), permute=lambda x: x.permute(2, 0, 1),
        mt=lambda x: x.mT, movedim=lambda x: x.movedim(0, -1), slice=lambda x: x[:, 1:3], step=lambda x: x[..., ::2], last=lambda x: x[:, -1],
        narrow=lambda x: x.narrow(2, 1, 2), expand=lambda x: x[:, :1].expand(2, 5, 4), cat=lambda x, y: torch.cat([x, y], -1),
        stack=lambda x, y: torch.stack([x, y], 1), split=lambda x: torch.split(x, [1, 3], 2)[1], chunk=lambda x: x.chunk(2, 2)[0], unbind=lambda x: x.unbind(1)[2],
        repeat=lambda x: x.repeat(2, 1, 3), tile=lambda x: x.tile(2), repeat_interleave=lambda x: x.repeat_interleave(2, 1), flip=lambda x: x.flip(0, 2),
        roll=lambda x: x.roll((1, -1), (1, 2)), roll_all=lambda x: x.roll(5), rot90=lambda x: torch.rot90(x, 1, (1, 2)), pad=lambda x: F.pad(x, (1, 2, -1, 1), value=3.0),
        reflect=lambda x: F.pad(x, (2, 1), mode="reflect"), replicate=lambda x: F.pad(x, (2, 1), mode="replicate"), circular=lambda x: F.pad(x, (2, 1), mode="circular"),
        tril=lambda x: x.tril(), triu=lambda x: x.triu(1), pixel_shuffle=lambda image: F.pixel_shuffle(image, 2),
        pixel_unshuffle=lambda image: F.pixel_unshuffle(image[:, :, :, :2], 2), unfold=lambda x: x.unfold(2, 2, 1), diagonal=lambda x: x.diagonal(1, 1, 2),
        arange=lambda x: torch.arange(3, 9, 2), linspace=lambda x: x[0, 0] * torch.linspace(0, 1, 4), full=lambda x: x + torch.full((4,), 2.5), eye=lambda x: x[0] @ torch.eye(4),
        ones_like=lambda x: x * torch.ones_like(x), new_zeros=lambda x: x + x.new_zeros(4), meshgrid=lambda x: torch.meshgrid(x[0, 0], x[0, 1], indexing="xy")[0]))
    out["writes"] = ({"x": normal(2, 3, 4), "y": normal(2, 3, 4)}, dict(
        slices=lambda x: written(x), columns=lambda x: written_column(x), parts=lambda x: written_parts(x), copies=lambda x, y: written_copies(x, y),
        chain=lambda x, y: written_chain(x, y), masked=lambda x: masked(x), same=lambda x: written_same(x), rows=lambda x: written_rows(x),
        given=lambda x: given(x), turned=lambda x: turned(x)))
    out["reductions"] = ({"x": normal(2, 3, 4), "y": normal(2, 3, 4), "n": integers(9, 2, 3, 4)}, dict(
        sum=lambda x: x.sum(), sum_of=lambda x: x.sum((0, 2), keepdim=True), sum_integers=lambda n: n.sum(1), mean=lambda x: x.mean(1), prod=lambda x: x.prod(2),
        amax=lambda x: x.amax((1, 2)), amin=lambda x: x.amin(1), max=lambda x: x.max(), max_of=lambda x: x.max(1)[0], arg_of_max=lambda x: x.max(1)[1],
        min_of=lambda x: x.min(1)[0], argmax=lambda x: x.argmax(-1), argmin=lambda x: x.argmin(1, keepdim=True), arg_of_all=lambda x: x.argmax(),
        any=lambda x: (x > 1).any(1), all=lambda x: (x > -1).all(), var=lambda x: x.var(1), var_biased=lambda x: x.var((1, 2), correction=0), std=lambda x: x.std(-1),
        logsumexp=lambda x: x.logsumexp((1, 2)), norm=lambda x: x.norm(dim=1), norm_of_one=lambda x: torch.linalg.vector_norm(x, 1, 2),
        norm_of_three=lambda x: torch.linalg.vector_norm(x, 3, 2), cumsum=lambda x: x.cumsum(1), cumsum_integers=lambda n: n.cumsum(2), cumprod=lambda x: x.cumprod(2),
        diff=lambda x: x.diff(), topk=lambda x: x.topk(2, -1)[0], sort=lambda x: x.sort(1, descending=True)[0], argsort=lambda x: x.argsort(2),
        cosine=lambda x, y: F.cosine_similarity(x, y, 1), normalize=lambda x: F.normalize(x, dim=1)))
    out["products"] = ({"a": normal(2, 3, 4), "b": normal(2, 4, 5), "m": normal(4, 5), "v": normal(4), "bias": normal(5), "w": normal(5, 4)}, dict(
        matmul=lambda a, b: a @ b, matmul_matrix=lambda a, m: a @ m, matmul_vector=lambda a, v: a @ v, vector_matmul=lambda v, b: v @ b, bmm=lambda a, b: torch.bmm(a, b),
        mm=lambda a, m: torch.mm(a[0], m), mv=lambda a, v: torch.mv(a[0], v), dot=lambda v: torch.dot(v, v), outer=lambda v, bias: torch.outer(v, bias),
        addmm=lambda a, m, bias: torch.addmm(bias, a[0], m, beta=0.5, alpha=2), baddbmm=lambda a, b, bias: torch.baddbmm(bias, a, b), linear=lambda a, w, bias: F.linear(a, w, bias),
        einsum=lambda a, b: torch.einsum("bij,bjk->ki", a, b)))
    out["indices"] = ({"x": normal(3, 4, 5), "table": normal(6, 4), "src": normal(3, 2, 5), "rows": normal(2, 4, 5), "i": integers(4, 3, 2, 5), "j": torch.tensor([2, 0]),
                       "ids": integers(6, 2, 3), "k": torch.tensor([[0, 2], [1, 1]])}, dict(
        embedding=lambda table, ids: F.embedding(ids, table), embedding_padded=lambda table, ids: F.embedding(ids, table, padding_idx=1),
        index_select=lambda x, j: x.index_select(1, j), gather=lambda x, i: x.gather(1, i), index=lambda x, j: x[j], index_middle=lambda x, j: x[:, j],
        index_two=lambda x, k: x[k, k], index_apart=lambda x, j: x[j, :, j], take_along=lambda x, i: x.take_along_dim(i, 1), one_hot=lambda ids: F.one_hot(ids, 6),
        scatter=lambda x: x.scatter(1, torch.tensor([[[0, 1, 2, 3, 0]]]), torch.tensor(7.0).expand(1, 1, 5)), scatter_add=lambda x, i, src: x.scatter_add(1, i, src),
        scatter_sum=lambda x, i, src: x.scatter_reduce(1, i, src, "sum", include_self=False), scatter_mean=lambda x, i, src: x.scatter_reduce(1, i, src, "mean"),
        index_add=lambda x, j, rows: x.index_add(0, j, rows, alpha=0.5), index_copy=lambda x, rows: x.index_copy(0, torch.tensor([2, 0]), rows),
        index_fill=lambda x: x.index_fill(1, torch.tensor([1, 3]), 2.0), index_put=lambda x, rows: x.index_put((torch.tensor([2, 0]),), rows),
        index_put_sum=lambda x, j, rows: x.index_put((j,), rows, accumulate=True), masked=lambda x: masked(x),
        bag=lambda table, ids: F.embedding_bag(ids, table, mode="mean"), tril_indices=lambda x: torch.tril_indices(3, 4)))
    out["networks"] = ({"x": normal(2, 6, 4), "w": positive(4), "b": normal(4), "c": positive(6), "d": normal(6), "q": normal(2, 4, 5, 3), "k": normal(2, 2, 5, 3),
                        "v": normal(2, 2, 5, 3)}, dict(
        layer_norm=lambda x, w, b: F.layer_norm(x, (4,), w, b), layer_norm_bare=lambda x: F.layer_norm(x, (6, 4)), rms_norm=lambda x, w: F.rms_norm(x, (4,), w, 1e-5),
        rms_norm_bare=lambda x: F.rms_norm(x, (4,)), group_norm=lambda x, c, d: F.group_norm(x, 3, c, d), instance_norm=lambda x: F.instance_norm(x),
        batch_norm=lambda x, c, d: F.batch_norm(x, None, None, c, d, training=True), dropout=lambda x: F.dropout(x, 0.3, training=False), no_grad=lambda x, w: without_gradient(x, w),
        attention=lambda q: F.scaled_dot_product_attention(q, q, q), attention_causal=lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True),
        attention_grouped=lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True, scale=0.3),
        attention_masked=lambda q: F.scaled_dot_product_attention(q, q, q, attn_mask=torch.ones(5, 5).tril().bool()),
        attention_biased=lambda q: F.scaled_dot_product_attention(q, q, q, attn_mask=(torch.arange(25.0) / 9).reshape(5, 5)),
        attention_of_three=lambda q: F.scaled_dot_product_attention(q[0], q[0], q[0])))
    out["losses"] = ({"x": normal(6, 5), "y": normal(6, 5), "p": share(6, 5), "t": share(6, 5), "labels": torch.tensor([0, 4, -100, 2, 1, 3]), "w": positive(5)}, dict(
        cross_entropy=lambda x, labels: F.cross_entropy(x, labels), cross_entropy_smooth=lambda x, labels: F.cross_entropy(x, labels, label_smoothing=0.1),
        cross_entropy_sum=lambda x, labels: F.cross_entropy(x, labels, reduction="sum"), cross_entropy_rows=lambda x, labels: F.cross_entropy(x, labels, reduction="none"),
        cross_entropy_weighted=lambda x, labels, w: F.cross_entropy(x, labels, weight=w.detach(), label_smoothing=0.2),
        cross_entropy_of_shares=lambda x, t: F.cross_entropy(x, t), nll=lambda x, labels: F.nll_loss(F.log_softmax(x, 1), labels),
        nll_bare=lambda x, labels: F.nll_loss(x, labels), mse=lambda x, y: F.mse_loss(x, y), l1=lambda x, y: F.l1_loss(x, y, reduction="sum"),
        huber=lambda x, y: F.huber_loss(x, y, delta=0.7), smooth_l1=lambda x, y: F.smooth_l1_loss(x, y, beta=0.5), bce=lambda p, t: F.binary_cross_entropy(p, t),
        bce_with_logits=lambda x, t: F.binary_cross_entropy_with_logits(x, t),
        bce_weighted=lambda x, t, w: F.binary_cross_entropy_with_logits(x, t, pos_weight=w.detach()), kl_div=lambda x, t: F.kl_div(x, t, reduction="batchmean"),
        kl_div_of_logarithms=lambda x, y: F.kl_div(x, y, log_target=True)))
    out["windows"] = ({"x": normal(2, 4, 7, 6), "line": normal(2, 4, 9), "w": normal(6, 2, 3, 3), "t": normal(4, 3, 2, 3), "b": normal(6), "u": normal(3, 4, 3), "places": share(2, 3, 5, 2) * 1.7 - 0.9}, dict(
        conv2d=lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1, groups=2), conv2d_dilated=lambda x, w: F.conv2d(x, w, None, dilation=2, padding=2, groups=2),
        conv2d_same=lambda x, w: F.conv2d(x, w, padding="same", groups=2), conv1d=lambda line, u: F.conv1d(line, u), conv_transpose=lambda x, t: F.conv_transpose2d(x, t, stride=2, padding=1, output_padding=1),
        max_pool=lambda x: F.max_pool2d(x, 3, 2, 1), max_pool_ceil=lambda x: F.max_pool2d(x, 2, ceil_mode=True), max_pool1d=lambda line: F.max_pool1d(line, 3, 2),
        avg_pool=lambda x: F.avg_pool2d(x, 3, 2, 1), avg_pool_inside=lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        avg_pool_ceil=lambda x: F.avg_pool2d(x, 2, ceil_mode=True), adaptive=lambda x: F.adaptive_avg_pool2d(x, 1), adaptive_uneven=lambda x: F.adaptive_avg_pool2d(x, (3, 4)),
        adaptive_max=lambda x: F.adaptive_max_pool2d(x, (7, 3)), nearest=lambda x: F.interpolate(x, scale_factor=2), nearest_size=lambda x: F.interpolate(x, size=(5, 9)),
        nearest_exact=lambda x: F.interpolate(x, size=(5, 9), mode="nearest-exact"), bilinear=lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear"),
        bilinear_aligned=lambda x: F.interpolate(x, size=(5, 9), mode="bilinear", align_corners=True), bicubic=lambda x: F.interpolate(x, size=(9, 4), mode="bicubic"),
        sampled=lambda x, places: F.grid_sample(x, places, align_corners=False), sampled_cubic=lambda x, places: F.grid_sample(x, places, "bicubic", "border", True),
        unfold=lambda x: F.unfold(x, (3, 2), dilation=2, padding=1, stride=2), fold=lambda line: F.fold(line[:, :, :6], (4, 3), (2, 2)),
        weight_norm=lambda w, b: torch._weight_norm(w, b.reshape(6, 1, 1, 1), 0), linear=lambda line: F.interpolate(line, scale_factor=2, mode="linear"), antialiased=lambda x: F.interpolate(x, size=(4, 3), mode="bilinear", antialias=True)))
    out["distances"] = ({"x": share(3, 4) - 0.5, "y": normal(3, 4), "z": normal(2, 4), "t": share(3, 4), "ids": integers(5, 2, 3), "rows": normal(2, 3, 4),
                         "image": normal(2, 6, 2, 3), "c": positive(6), "w": positive(4), "experts": normal(4, 4, 3), "ends": torch.tensor([2, 2, 5, 6])}, dict(
        grouped=lambda rows, experts, ends: torch.ops.transformers.grouped_mm_fallback(rows.reshape(6, 4), experts, ends), picked=lambda y: y[0, 0].index_select(0, torch.tensor([0])), strided=lambda y: y.as_strided((2, 3), (5, 2), 1), vector=lambda y, w: torch.addmv(w[:3], y, w), asin=lambda x: torch.asin(x), acos=lambda x: torch.acos(x), atan=lambda y: torch.atan(3 * y), asinh=lambda y: torch.asinh(2 * y), atan2=lambda x, y: torch.atan2(x, y),
        atan2_axes=lambda x: torch.atan2(x.detach().sign(), torch.zeros(3, 4)), sinh=lambda x: torch.sinh(x / 50), cdist=lambda y, z: torch.cdist(y, z),
        cdist_of_ones=lambda y, z: torch.cdist(y, z, p=1.0), cdist_of_threes=lambda y, z: torch.cdist(y, z, p=3.0), cdist_forward=lambda y, z: torch.ops.aten._cdist_forward(y.detach(), z.detach(), 2.0, None),
        pdist=lambda y: F.pdist(y), pairwise=lambda x, y: F.pairwise_distance(x, y, p=3.0, keepdim=True), masked_scatter=lambda x, y, t: y.masked_scatter(x > 0, t),
        histc=lambda x: torch.histc(x.detach(), 5, -0.4, 0.4), nonzero=lambda y: y[torch.tensor([[0, 2], [1, 0]]).nonzero()],
        embedding_gradient=lambda rows, ids: torch.ops.aten.embedding_dense_backward(rows, ids, 5, 2, False),
        layer_norm_gradient=lambda rows, w: layer_norm_gradients(rows, w), group_norm_gradient=lambda image, c: group_norm_gradients(image, c)))
    out["complex"] = ({"x": normal(2, 3, 4, 2), "y": normal(2, 3, 4, 2), "size": positive(3, 4), "angle": normal(3, 4), "heads": normal(2, 3, 2, 8)}, dict(
        product=lambda x, y: real(pair(x) * pair(y)), by_real=lambda x, angle: real(pair(x) * angle), by_number=lambda x: real(2 * pair(x)), polar=lambda size, angle: real(torch.polar(size, angle)),
        quotient=lambda x, y: real(pair(x) / (pair(y) + 3)), difference=lambda x, y: real(pair(x) - pair(y)), less_real=lambda x, size: real(size - pair(x)), conjugate=lambda x: real(pair(x).conj() * 1),
        negative=lambda x: real(-pair(x)), parts=lambda x: pair(x).real * pair(x).imag, size_of=lambda x: pair(x).abs(), angle_of=lambda x: pair(x).angle(), exponential=lambda x: real(pair(x).exp()),
        of_parts=lambda size, angle: real(torch.complex(size, angle)), moved=lambda x, y: moved_complex(pair(x), pair(y)), angle_of_real=lambda x: x.detach().angle(),
        rotary=lambda heads, size, angle: real(pair(heads.reshape(2, 3, 2, 4, 2)) * torch.polar(size, angle).view(1, 3, 1, 4)).flatten(3)))
    out["control"] = ({"x": normal(4, 3), "w": normal(3, 3), "b": normal(3)}, dict(
        taken=lambda x, w: torch.cond(torch.tensor(True), lambda x, w: (x @ w).sin(), lambda x, w: x.cos(), (x, w)),
        other=lambda x, w: torch.cond(torch.tensor(3) < 2, lambda x, w: (x @ w).sin(), lambda x, w: x.cos(), (x, w)),
        running=lambda x, w, b: scanned(x, w, b)[0], states=lambda x, w, b: scanned(x, w, b)[1], backwards=lambda x, w, b: scanned(x, w, b, reverse=True)[1],
        counted=lambda x: while_loop(lambda k, x: k < 3, lambda k, x: (k + 1, x.sin() * 1.5), (torch.tensor(0), x.detach()))[1]))
    # Where operators have rules of their own: one element, none, numbers beyond the border, lists without dimensions, NaN.
    out["edges"] = ({"x": normal(2, 3, 4), "zeros": torch.tensor([[0.0, 2.0, -3.0], [1.0, 0.5, 0.0]]), "image": normal(1, 2, 4, 5), "line": normal(1, 2, 5),
                     "solid": normal(1, 2, 3, 4, 5), "places": normal(1, 3, 4, 2) * 1.5, "odd": torch.tensor([float("nan"), 1.0, -2.0, float("inf")])}, dict(
        **{f"{mode}_of_{h}_{w}".replace("-", "_"): lambda image, size=(h, w), mode=mode: F.interpolate(image, size, mode=mode)
           for mode in ("bilinear", "bicubic", "nearest", "nearest-exact", "area") for h, w in ((1, 1), (1, 7), (2, 1))},
        bilinear_aligned_to_one=lambda image: F.interpolate(image, (1, 1), mode="bilinear", align_corners=True), antialiased_to_one=lambda image: F.interpolate(image, (1, 1), mode="bilinear", antialias=True),
        linear_to_one=lambda line: F.interpolate(line, 1, mode="linear"), trilinear_to_one=lambda solid: F.interpolate(solid, (1, 1, 1), mode="trilinear"),
        **{f"{mode}_{padding}_{aligned}": lambda image, places, mode=mode, padding=padding, aligned=aligned: F.grid_sample(image, places, mode, padding, aligned)
           for mode in ("bilinear", "bicubic", "nearest") for padding in ("zeros", "border", "reflection") for aligned in (False, True)},
        any_of_no_dimension=lambda x: (x > 0).any(dim=()), all_of_no_dimension=lambda x: (x > 0).all(dim=()), sum_of_no_dimension=lambda x: x.sum(()), most_truth=lambda x: (x > 0).max(1)[0], least_truth=lambda x: (x > 0).min(2)[0],
        first_truth=lambda x: (x > 0).max(1)[1], bounds_of_truth=lambda x: torch.stack([*torch.aminmax(x > 0, dim=0)]), norm_below_zero=lambda zeros: torch.linalg.vector_norm(zeros.detach(), -1, 1), norm_of_two_below=lambda x: torch.linalg.vector_norm(x, -2, 1),
        norm_of_matrices=lambda x: torch.linalg.matrix_norm(x), angle=lambda odd: torch.nan_to_num(odd.detach().angle(), 7.0),
        channels=lambda image: F.dropout2d(image, 0.5, False) * 1, selu_dropout=lambda x: F.alpha_dropout(x, 0.5, False)))
    out["composites"] = ({"x": normal(2, 3, 4), "y": normal(2, 3, 4), "m": normal(3, 3), "v": normal(3), "w": normal(3), "image": normal(1, 6, 2, 2), "rates": positive(2, 3, 4),
                          "counts": integers(5, 2, 3, 4).float(), "signs": torch.tensor([[1.0, -1.0, 1.0], [-1.0, 1.0, -1.0]]), "odd": torch.tensor([float("nan"), 1.0, float("-inf"), float("inf")])}, dict(
        hstack=lambda x, y: torch.hstack([x, y]), hstack_of_vectors=lambda v, w: torch.hstack([v, w]), vstack=lambda v, m: torch.vstack([v, m]), dstack=lambda m: torch.dstack([m, 2 * m]),
        dstack_of_vectors=lambda v, w: torch.dstack([v, w]), column_stack=lambda v, m: torch.column_stack([v, m]), fliplr=lambda x: torch.fliplr(x), flipud=lambda x: torch.flipud(x),
        diag_embed=lambda x: torch.diag_embed(x), diag_embed_below=lambda m: torch.diag_embed(m, -2, 0, 2), diag_of_vector=lambda v: torch.diag(v, 1), diag_of_matrix=lambda m: torch.diag(m, -1), trace=lambda m: torch.trace(m),
        tensordot=lambda x, y: torch.tensordot(x, y, dims=([2, 0], [2, 0])), tensordot_of_one=lambda x, m: torch.tensordot(x.transpose(1, 2), m, dims=1), outer_of_all=lambda m, v: torch.tensordot(m, v, dims=0), inner=lambda x, y: torch.inner(x, y), vecdot=lambda x, y: torch.linalg.vecdot(x, y, dim=1),
        vdot=lambda v, w: torch.vdot(v, w), cross=lambda x, y: torch.cross(x, y, dim=1), cross_found=lambda m, v: torch.ops.aten.cross(m, m * v + 1), linalg_cross=lambda m, v: torch.linalg.cross(m, v[None]),
        fmax=lambda x, y: torch.fmax(x, y), fmin_of_nan=lambda odd, x: torch.fmin(odd.detach(), x[0, 0].detach()).clamp(-9, 9), positive_infinity=lambda odd: torch.isposinf(odd), negative_infinity=lambda odd: torch.isneginf(odd),
        radians=lambda x: torch.deg2rad(x), degrees=lambda x: torch.rad2deg(x), nonzeros=lambda x: torch.count_nonzero(x > 0), nonzeros_of=lambda x: torch.count_nonzero(x > 0, (0, 2)), channel_shuffle=lambda image: F.channel_shuffle(image, 3),
        norm=lambda x: torch.linalg.norm(x), norm_of_matrix=lambda m: torch.linalg.norm(m, 1), norm_of_vector=lambda v: torch.linalg.norm(v, 3), norm_of_two=lambda x: torch.linalg.norm(x, "fro", (0, 2)), norm_of_none=lambda m: torch.linalg.norm(m), trapz=lambda x: torch.trapz(x, dx=0.5, dim=1),
        hinge=lambda m, signs: F.hinge_embedding_loss(m[:2], signs.detach(), margin=0.7), ranking=lambda m, signs: F.margin_ranking_loss(m[:2], m[1:], signs.detach(), margin=0.3, reduction="sum"), soft_margin=lambda m, signs: F.soft_margin_loss(m[:2], signs.detach()),
        poisson=lambda x, counts: F.poisson_nll_loss(x, counts.detach()), poisson_in_full=lambda rates, counts: F.poisson_nll_loss(rates, counts.detach(), log_input=False, full=True, reduction="none"),
        cosine_embedding=lambda x, y, signs: F.cosine_embedding_loss(x[0], y[0], signs[0].detach(), margin=0.1)))
    out["grids"] = ({"theta": normal(2, 2, 3), "solid": normal(1, 3, 4), "image": normal(2, 3, 4, 5)}, dict(
        places=lambda theta: F.affine_grid(theta, [2, 3, 4, 5], align_corners=False), aligned=lambda theta: F.affine_grid(theta, [2, 3, 1, 5], align_corners=True),
        places_of_solids=lambda solid: F.affine_grid(solid, [1, 2, 2, 3, 4], align_corners=False),
        moved=lambda theta, image: F.grid_sample(image, F.affine_grid(0.2 * theta, [2, 3, 3, 3], align_corners=False), align_corners=False)))
    return out


def scanned(x, w, b, reverse=False):
    def step(h, row):
        h = torch.tanh(h @ w + row * b)
        return h, h * 2
    return scan(step, x[0] * 0, x, dim=0, reverse=reverse)


def pair(x):
    return torch.view_as_complex(x)


def real(z):
    return torch.view_as_real(z)


def moved_complex(x, y):
    """What moves complex numbers, and computes nothing."""
    z = torch.cat([x.transpose(1, 2), y.permute(0, 2, 1)[:, 1:]], 1)
    z = torch.stack([z, z.flip(1)]).unsqueeze(2).expand(2, 2, 3, 7, 3).reshape(-1, 7, 3)[2:5]
    return torch.view_as_real(torch.split(z, [3, 4], 1)[1][:, torch.tensor([0, 2])])


def layer_norm_gradients(rows, w):
    rows, w = rows.detach(), w.detach()
    _, mean, rstd = torch.ops.aten.native_layer_norm(rows, [4], w, None, 1e-5)
    return torch.cat([g.flatten() for g in torch.ops.aten.native_layer_norm_backward(rows.cos(), rows, [4], mean, rstd, w, w, [True, True, True])])


def group_norm_gradients(image, c):
    image, c = image.detach(), c.detach()
    _, mean, rstd = torch.ops.aten.native_group_norm(image, c, None, 2, 6, 6, 3, 1e-5)
    return torch.cat([g.flatten() for g in torch.ops.aten.native_group_norm_backward(image.cos(), image, mean, rstd, c, 2, 6, 6, 3, [True, True, True])])


def torch_of(name):
    return lambda x: getattr(torch, name)(x)


def given(x):
    """Results that are written to a part of a tensor, and to all of another one."""
    parts, whole = torch.zeros(4, 3, 4), torch.empty_like(x)
    torch.add(x.detach()[0], 1.0, out=parts[1])
    torch.div(x.detach(), 3.0, out=whole)
    return parts.sum(0) * 2 + parts[1] * whole[0]


def written(x):
    y = x * 2
    y[:, 1:] = x[:, :-1]
    y[0, 0, 0] = 5
    y[..., ::2].mul_(3)
    return y


def written_column(x):
    y = x.new_zeros(2, 3, 5)
    y[..., 1:] = x
    y[..., 0] = 7
    y.transpose(0, 1)[2].add_(1)
    return y


def without_gradient(x, w):
    with torch.no_grad():
        y = x * w
        y += 1
    return y * w + x


def written_parts(x):
    y = x + 1
    y.narrow(-1, 0, 2).mul_(2)
    y.select(1, 1).add_(3)
    y.unflatten(2, (2, 2))[..., 0].squeeze().neg_()
    return y


def written_copies(x, y):
    """A reshape of what does not lie in order copies it, and so do contiguous() and another type."""
    z = x * 2
    z.transpose(1, 2).contiguous().add_(5)
    z.permute(2, 0, 1).contiguous().view(4, 6).mul_(7)
    z.to(torch.bfloat16).add_(y)  # a copy, though thunderc computes both in f32
    return z + y


def written_chain(x, y):
    z = x * 1
    z.view(6, 4)[2:5].unsqueeze(0).transpose(1, 2).sub_(y[0, 0].view(1, 4, 1))
    z.reshape(-1)[::5] = 0
    return z


def written_same(x):
    """What gives its operand itself: eval()'s dropout, to() its own type, contiguous() of what is."""
    z = x * 3
    F.dropout(z, 0.5, False).add_(1)
    F.dropout(z, 0.0, True).add_(2)
    z.to(z.dtype).mul_(2)
    z.contiguous().sub_(0.5)
    z.add_(1).mul_(2)
    return z


def written_rows(x):
    z = x * 1
    z[torch.tensor([1, 0]), torch.tensor([2, 2])] = 4
    z[:, 1].clamp_(min=0)
    return z


def turned(x):
    """transpose_() and the like write nothing: the memory, and other views of it, stay as they are."""
    y = x * 1
    z = y.view(6, 4)[1:5]
    z.t_()
    z[0].add_(5)
    w = x + 1
    w.transpose_(0, 2).unsqueeze_(0)
    w.squeeze_(0)[1].mul_(3)
    return y * w.transpose(0, 2)


def masked(x):
    y = x.clone()
    y[y > 0.5] = -1.0
    return y


class Group(torch.nn.Module):
    def __init__(self, inputs, functions):
        super().__init__()
        self.names, self.functions = list(inputs), functions

    def forward(self, *inputs):
        given = dict(zip(self.names, inputs))
        out = {name: f(*(given[n] for n in names_of(f, self.names))) for name, f in self.functions.items()}
        loss = sum((o * torch.cos(torch.arange(o.numel()).reshape(o.shape).to(o.dtype) + k)).sum()
                   for k, o in enumerate(out.values()) if o.is_floating_point())
        return {"loss": loss, **out}


def names_of(f, names):
    wanted = list(inspect.signature(f).parameters) if f.__module__ == __name__ else ["x"]
    return [n for n in wanted if n in names] if f.__module__ == __name__ else names[:1]


def main():
    a = fixture_files.arguments(__doc__, torch, out="tests/fixtures/pt2_operators")
    os.makedirs(a.out, exist_ok=True)
    for name, (inputs, functions) in groups().items():
        if not a.wants(name):
            continue
        group = Group(inputs, functions)
        export(group, inputs, f"{a.out}/{name}.pt2")
        exact = {n: t.double().requires_grad_() if t.is_floating_point() else t for n, t in inputs.items()}
        torch.set_default_dtype(torch.float64)
        out = group(*exact.values())
        torch.set_default_dtype(torch.float32)
        out["loss"].backward()
        kept = lambda t: t.detach().float() if t.is_floating_point() else t.long()
        fixture_files.save_tensors(a.out, **{name: {**{f"in.inputs_{k}": t for k, t in enumerate(inputs.values())}, **{f"out.{n}": kept(t) for n, t in out.items()},
                                                    **{f"grad.inputs_{k}": kept(t.grad) for k, t in enumerate(exact.values()) if t.is_floating_point() and t.grad is not None}}})


if __name__ == "__main__":
    main()
