// SPDX-License-Identifier: Apache-2.0
// What the rules of optimizers step, beside single numbers: whole tensors in double, for the references of their ops,
// and expressions, for what these decompose into. Both have what rules/rule.h lets a rule call.
#pragma once

#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ir/tensor.h"

namespace thunderc::optimizing {

// ---- in double ----

struct Dense {
    Dims dims;
    std::vector<double> of;
};
Dense read(const Tensor& tensor);
void write(Tensor& tensor, const Dense& values);

// By elements, as numpy broadcasts.
Dense operator+(const Dense& x, const Dense& y);
Dense operator-(const Dense& x, const Dense& y);
Dense operator*(const Dense& x, const Dense& y);
Dense operator/(const Dense& x, const Dense& y);
Dense operator*(double x, const Dense& y);
Dense operator/(const Dense& x, double y);
Dense root(const Dense& x);
Dense at_least(const Dense& x, double least);
// Of matrices.
Dense transposed(const Dense& x);
Dense product(const Dense& x, const Dense& y);
double norm(const Dense& x);            // the root of the sum of all squares
double rms(const Dense& x);             // the root of their mean
Dense mean_of_rows(const Dense& x);     // along the last dimension, which is gone
Dense mean_of_columns(const Dense& x);  // along the last but one, which is gone
Dense along_rows(const Dense& x);       // (..., R) as (..., R, 1)
Dense along_columns(const Dense& x);    // (..., C) as (..., 1, C)

// ---- as ops ----

// A value, or a number that becomes one beside a value.
struct Expression {
    Builder* b = nullptr;
    Value value = {};
    double number = 0;

    Expression() = default;
    explicit Expression(double x) : number(x) {}
    Expression(Builder& builder, Value v) : b(&builder), value(v) {}
    Value in(Builder& builder) const { return b != nullptr ? value : builder.scalar(DType::f32, number); }
};
Expression operator+(const Expression& x, const Expression& y);
Expression operator-(const Expression& x, const Expression& y);
Expression operator*(const Expression& x, const Expression& y);
Expression operator/(const Expression& x, const Expression& y);
Expression root(const Expression& x);
Expression sign(const Expression& x);
Expression at_least(const Expression& x, const Expression& least);
Expression transposed(const Expression& x);
Expression product(const Expression& x, const Expression& y);
Expression norm(const Expression& x);
Expression rms(const Expression& x);
Expression mean_of_rows(const Expression& x);
Expression mean_of_columns(const Expression& x);
Expression along_rows(const Expression& x);
Expression along_columns(const Expression& x);

// A condition that is known, or one that a step knows.
struct Condition {
    bool always;
    Expression flag;
};
Expression where(const Condition& condition, const Expression& yes, const Expression& no);

}  // namespace thunderc::optimizing
