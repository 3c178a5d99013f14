// SPDX-License-Identifier: Apache-2.0
// What several losses are made of: inputs, means, classes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/losses/losses.h"

namespace thunderc {

// ---- inputs ---------------------------------------------------------------------------------------------------------

Type like_result(const Type& result);
Type rows_of_result(const Type& result, DType dtype);  // without its last dimension
LossInput number_labels(std::string holds = "the number that each element is to be");
LossInput class_labels();

// ---- means over all elements ----------------------------------------------------------------------------------------

Value mean_of_all(Builder& b, Value v);  // f32[]
Value sum_of_all(Builder& b, Value v, std::string_view name);
Value distance(Builder& b, Value result, Value labels);  // |result - label|, f32
// `what` with what is told of any mean over a number of elements that is known beforehand.
std::string mean_said(const std::string& what, const std::string& against, std::int64_t elements);
// Of `f` of each element of the two.
double mean_of(const Tensor& result, const Tensor& labels, const std::function<double(double, double)>& f);

// d^2 / 2 of |result - label| = d up to `bend`, and bend (d - bend / 2) behind it: a parabola that goes on straight.
Value bent_squares(Builder& b, Value result, Value labels, double bend);
double bent_square(double distance, double bend);

// ---- classes, in the last dimension ---------------------------------------------------------------------------------

constexpr std::int64_t ignored_label = -100;  // torch's default

LossOption class_weights();
// Rows of scores and their labels, as f32 where weights or another formula than that of cross_entropy read them.
struct ClassRows {
    std::int64_t rows = 0, classes = 0;
    Value scores, labels;  // [rows, classes], [rows]
};
ClassRows class_rows(Builder& b, Value result, Value labels);
Value is_label(Builder& b, const ClassRows& rows);                         // bool[rows, classes]
Value numbers_of_classes(Builder& b, const std::vector<double>& numbers);  // f32[1, classes]
Value label_count(Builder& b, Value labels);                               // those that are not ignored: f32[]
double weight_of(const LossNumbers& numbers, std::int64_t label);          // 1 where there are none
std::string classes_said(const Type& result, const LossNumbers& numbers);  // "over 5 weighted classes"

}  // namespace thunderc
