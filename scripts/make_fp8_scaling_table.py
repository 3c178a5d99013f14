#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Records what delayed and current scaling make of amaxes: tests/fixtures/fp8/scaling.safetensors. Needs the versions below.

  python scripts/make_fp8_scaling_table.py [--out tests/fixtures/fp8]

An implementation of its own of the rule that Transformer Engine has in transformer_engine/common/recipe/delayed_scaling.cu (the
update after amaxes were reduced over ranks, which its autocast regions call), in numpy's f32. Five tensors, 2,000 updates:
amax (2000, 5) is what was left at each; RECIPE/scale (2000 / 10, 5) the scales after every tenth, RECIPE/history (5, length)
the history at the end, its first element that of the next update. In the recipes "ranks" and "four" two and
four ranks have amaxes of each tensor, the next rank's being those of the next tensor; the history is that of the first rank.

current/amax has amaxes of all sizes, current/KIND the scales of current scaling (common/recipe/recipe_common.cuh there);
current/bf16 those of a block of bf16, current/mx the ones of MX, by which codes are multiplied
(common/cast/mxfp8/quantize_mxfp8.cuh).
"""
import argparse, os

import numpy as np
import safetensors
from safetensors.numpy import save_file

PINNED = {"numpy": "2.", "safetensors": "0."}
STEPS, TENSORS, EVERY = 2000, 5, 10
E4M3, E5M2 = 448.0, 57344.0
RECIPES = {  # largest number, margin, length of the history, from the latest amax alone, ranks
    "forward": (E4M3, 0, 1024, False, 1),
    "backward": (E5M2, 0, 1024, False, 1),
    "latest": (E4M3, 1, 1024, True, 1),
    "short": (E5M2, 3, 3, False, 1),
    "one": (E4M3, 0, 1, False, 1),
    "ranks": (E4M3, -2, 16, False, 2),
    "four": (E5M2, 0, 16, False, 4),
}


def amaxes():
    draw = np.random.default_rng(17)
    a = np.exp(draw.normal(1.0, 0.7, (STEPS, TENSORS)))
    a[draw.random(STEPS) < 0.1, 0] = 0  # nothing was quantised: a weight, from the second micro-step on
    a[[100, 700], 1] = np.inf
    a[draw.random(STEPS) < 0.02, 2] = np.nan
    a[[0, 1], 2] = np.nan
    a[500, 3] *= 1000
    a[1500:, 3] *= 1000
    a[:50, 4] = 0
    a[50:400, 4] *= 1e-40  # subnormal numbers, whose scale f32 does not hold
    a[1900:, 4] *= 1e37
    return a.astype(np.float32)


class Tensor:
    def __init__(self, length):
        self.now, self.past, self.scale = np.float32(0), [np.float32(0)] * (length - 1), np.float32(1)

    def update(self, reduced, largest, from_latest):
        latest = reduced if reduced != 0 else self.now
        window = [np.float32(0)]
        if latest != 0:  # true of a NaN
            window = self.past + [latest]
            self.past, self.now = window[1:], np.float32(0)
        candidates = [latest] if from_latest else [a for a in window if not np.isnan(a)]
        amax = max(candidates, default=np.float32(0))
        if np.isfinite(amax) and amax > 0:
            with np.errstate(over="ignore"):
                self.scale = np.float32(largest) / amax
        if np.isinf(self.scale):
            self.scale = np.finfo(np.float32).max


def run(sequence, largest, margin, length, from_latest, ranks):
    tensors, scales = [Tensor(length) for _ in range(TENSORS)], []
    largest = np.float32(largest * 2.0**-margin)
    for step, row in enumerate(sequence):
        for t, tensor in enumerate(tensors):
            tensor.now = row[t]
            reduced = row[t]
            for rank in range(1, ranks):
                reduced = np.fmax(reduced, row[(t + rank) % TENSORS])
            tensor.update(reduced, largest, from_latest)
        if step % EVERY == EVERY - 1:
            scales.append([tensor.scale for tensor in tensors])
    history = [[tensor.now] + tensor.past for tensor in tensors]
    return np.array(scales, dtype=np.float32), np.array(history, dtype=np.float32)


CURRENT = {  # largest number, scales are powers of two, amaxes below are raised to this
    "e4m3": (E4M3, False, 0.0),
    "e5m2": (E5M2, False, 0.0),
    "powers": (E4M3, True, 0.0),
    "raised": (E5M2, True, 1e-4),
}


def current_amaxes():
    draw = np.random.default_rng(18)
    exact = [E4M3 * 2.0**e for e in range(-140, 119, 3)] + [2.0**e for e in range(-149, 128, 3)]  # whose scales are powers
    near = [np.nextafter(np.float32(a), np.float32(to)) for a in exact for to in (0, np.inf)]
    drawn = 2.0 ** draw.uniform(-149, 127, 300)
    special = [0, np.inf, np.nan, np.finfo(np.float32).max, 1e-45, 1e-4, 448, 57344]
    with np.errstate(under="ignore"):
        return np.array(exact + near + list(drawn) + special, dtype=np.float32)


def mx_scale(amax):
    """The least power of two by which the amax, brought down by the largest number, is not above 1: by integers."""
    with np.errstate(under="ignore"):
        amax = amax * np.float32(1 / np.float32(E4M3))
    if np.isnan(amax):
        return amax
    if np.isinf(amax):
        return np.float32(2.0**127)
    numerator, denominator = float(amax).as_integer_ratio()
    exponent = -127
    while exponent < 127 and (numerator << max(-exponent, 0)) > (denominator << max(exponent, 0)):
        exponent += 1
    return np.float32(2.0**exponent)


def current_scale(amax, largest, powers, least, most=np.finfo(np.float32).max):
    if amax < least:
        amax = np.float32(least)
    if not (np.isfinite(amax) and amax > 0):
        return np.float32(1)
    with np.errstate(over="ignore"):
        scale = np.float32(largest) / amax
    if np.isinf(scale):
        scale = most
    return np.float32(2.0 ** (np.frexp(scale)[1] - 1)) if powers else np.float32(scale)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="tests/fixtures/fp8")
    out = parser.parse_args().out
    for package in (np, safetensors):
        assert package.__version__.startswith(PINNED[package.__name__]), package.__version__
    tensors = {"amax": amaxes()}
    for name, recipe in RECIPES.items():
        tensors[name + "/scale"], tensors[name + "/history"] = run(tensors["amax"], *recipe)
    tensors["current/amax"] = current_amaxes()
    for name, (largest, powers, least) in CURRENT.items():
        scales = [current_scale(amax, largest, powers, np.float32(least)) for amax in tensors["current/amax"]]
        tensors["current/" + name] = np.array(scales, dtype=np.float32)
    bf16_most = np.float32((2 - 2.0**-7) * 2.0**127)
    tensors["current/bf16"] = np.array(
        [current_scale(a, E4M3, False, np.float32(0), bf16_most) for a in tensors["current/amax"]], dtype=np.float32)
    tensors["current/mx"] = np.array([mx_scale(a) for a in tensors["current/amax"]], dtype=np.float32)
    os.makedirs(out, exist_ok=True)
    save_file(tensors, os.path.join(out, "scaling.safetensors"))


main()
