// SPDX-License-Identifier: Apache-2.0
// The optimizers that there are: the file of each, and X(name, rule). A program has the one alone that steps it.
#pragma once

#include "adagrad.h"
#include "adam.h"
#include "adamw.h"
#include "lion.h"
#include "plain_sgd.h"
#include "rmsprop.h"
#include "sgd.h"

#define THUNDER_RULES(X)          \
    X(adagrad, rules::Adagrad)    \
    X(adam, rules::Adam)          \
    X(adamw, rules::AdamW)        \
    X(lion, rules::Lion)          \
    X(plain_sgd, rules::PlainSgd) \
    X(rmsprop, rules::RmsProp)    \
    X(sgd, rules::Sgd)
