// SPDX-License-Identifier: Apache-2.0
// The optimizers that there are: the file of each, and X(name, rule). A program has the one alone that steps it.
#pragma once

#include "adafactor.h"
#include "adagrad.h"
#include "adam.h"
#include "adamw.h"
#include "lion.h"
#include "muon.h"
#include "plain_sgd.h"
#include "rmsprop.h"
#include "sgd.h"

// Those that step some matrices as wholes. A line each: lists of programs are made line by line.
// clang-format off
#define THUNDER_MATRIX_RULES(X) \
    X(muon, rules::Muon)

// Those that step every tensor as a whole: they have no element().
#define THUNDER_TENSOR_RULES(X) \
    X(adafactor, rules::Adafactor)

#define THUNDER_RULES(X) \
    THUNDER_TENSOR_RULES(X) \
    THUNDER_ELEMENT_RULES(X)

// clang-format on

#define THUNDER_ELEMENT_RULES(X)  \
    X(adagrad, rules::Adagrad)    \
    X(adam, rules::Adam)          \
    X(adamw, rules::AdamW)        \
    X(lion, rules::Lion)          \
    X(muon, rules::Muon)          \
    X(plain_sgd, rules::PlainSgd) \
    X(rmsprop, rules::RmsProp)    \
    X(sgd, rules::Sgd)
