#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Records what the package ml_dtypes makes of numbers of eight bits: tests/fixtures/fp8. Needs the versions below.

  python scripts/make_fp8_tables.py [--out tests/fixtures/fp8]

codes.txt has a line for each of the 256 codes of a type: "code e4m3 CODE F32", all in base 16, F32 the bits of the number as a
float ("nan" where it is none). roundings.txt has a line for each float where rounding turns, and its neighbours: "F32 LOST
SATURATED", the codes of its magnitude with a number past the largest becoming infinite (in e4m3: no number) and becoming the
largest. Both signs are recorded in one line, "F32 LOST SATURATED" of the positive one, once they were found to differ in the
sign alone. e8m0 has "F32 CODE": the least power of two that is not below the number, worked out here by fractions, since
ml_dtypes rounds to the nearest and scales are rounded up (PTX's cvt.rp.satfinite.ue8m0x2.f32).
"""
import argparse, fractions, os

import ml_dtypes
import numpy as np

PINNED = {"ml_dtypes": "0.6.0"}
TYPES = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "e8m0": ml_dtypes.float8_e8m0fnu}
INFINITY, NANS = 0x7f800000, (0x7f800001, 0x7fc00000, 0x7fffffff)


def floats(bits):
    return np.array(bits, dtype=np.uint32).view(np.float32)


def bits_of(numbers):
    return np.asarray(numbers, dtype=np.float32).view(np.uint32)


def decoded(name):
    return np.arange(256, dtype=np.uint8).view(TYPES[name]).astype(np.float32)


def turning_points(numbers):
    """Bits of all positive floats at which rounding to one of the ascending numbers may turn, with their neighbours."""
    points = set()
    for low, high in zip(numbers[:-1], numbers[1:]):
        middle = np.float32((np.float64(low) + np.float64(high)) / 2)
        for number in (low, middle, high):
            points.add(int(bits_of(number)))
    last, before = np.float64(numbers[-1]), np.float64(numbers[-2])
    for number in (last + (last - before) / 2, last + (last - before), 2 * last, 1e30):  # past the largest
        points.add(int(bits_of(np.float32(min(number, np.finfo(np.float32).max)))))
    points |= {0, 1, 0x007fffff, 0x00800000, 0x7f7fffff}  # zero, subnormal floats, the largest
    return sorted({p + d for p in points for d in (-1, 0, 1) if 0 <= p + d < INFINITY} | {INFINITY, *NANS})


def code_text(name, codes):
    numbers = codes.view(TYPES[name]).astype(np.float32)
    return ["nan" if np.isnan(n) else "%02x" % c for c, n in zip(codes, numbers)]


def roundings(name):
    numbers = decoded(name)
    points = turning_points(sorted(set(float(n) for n in numbers if np.isfinite(n) and n >= 0)))
    with np.errstate(over="ignore", invalid="ignore"):
        codes = floats(points).astype(TYPES[name]).view(np.uint8)
        negative = floats([p | 0x80000000 for p in points]).astype(TYPES[name]).view(np.uint8)
    largest = max(c for c in range(128) if np.isfinite(numbers[c]))
    for x, code, other in zip(floats(points), codes, negative):
        assert np.isnan(numbers[code]) == np.isnan(numbers[other]) and (np.isnan(numbers[code]) or other == code | 0x80), x
    saturated = [c if np.isnan(x) or np.isfinite(numbers[c]) else largest for x, c in zip(floats(points), codes)]
    lost, kept = code_text(name, codes), code_text(name, np.array(saturated, dtype=np.uint8))
    return ["%s %08x %s %s" % (name, p, a, b) for p, a, b in zip(points, lost, kept)]


def rounded_up(bits):
    if bits > INFINITY:
        return "nan"
    if bits == INFINITY:
        return "fe"
    number = fractions.Fraction(float(floats([bits])[0]))
    return "%02x" % next((c for c in range(254) if fractions.Fraction(2) ** (c - 127) >= number), 254)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="tests/fixtures/fp8")
    out = parser.parse_args().out
    assert ml_dtypes.__version__ == PINNED["ml_dtypes"], ml_dtypes.__version__
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, "codes.txt"), "w") as file:
        for name in TYPES:
            for code, number in enumerate(decoded(name)):
                file.write("%s %02x %s\n" % (name, code, "nan" if np.isnan(number) else "%08x" % bits_of(number)))
    with open(os.path.join(out, "roundings.txt"), "w") as file:
        for name in ("e4m3", "e5m2"):
            file.write("".join(line + "\n" for line in roundings(name)))
        powers = [float(np.float64(2) ** e) for e in range(-127, 128)]
        for point in turning_points(powers):
            file.write("e8m0 %08x %s\n" % (point, rounded_up(point)))


main()
