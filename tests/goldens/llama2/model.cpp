// model.cpp: a training step of noopt.logits.
// A formula before the call of a kernel is in the names of the call's arguments, where it does not say otherwise;
// before a call with fields, `.x = ...`, in theirs. x1, x2, ... are pieces of x.
// "dx =" says that a call overwrites a gradient, "dx +=" that it adds to it. Those of parameters are sums over
// micro-steps: a call with WriteMode::overwrite begins one, the others add to it.
// wait_for_update(part): where the update of the step before runs beside the forward pass, that part of it is done,
// which writes what is read next.
#include "model.h"

#include "kernels.h"             // the kernels generated for this model
#include "optim/global_norm.h"   // the norm of all gradients
#include "optim/step_scalars.h"  // what changes from step to step, on the device
#include "optim/update.h"        // one pass over all parameters

using namespace thunder;

void Model::forward([[maybe_unused]] WriteMode mode) {
    [[maybe_unused]] Stream& stream = stream_;
    const Range range("forward");  // as a GPU's profilers show it

    namespace offset = layout::forward_backward;

    // the micro-batch
    const std::int64_t* const input_ids = at<std::int64_t>(arenas_.batch, offset::input_ids);  // (B,T)
    const std::int64_t* const labels = at<std::int64_t>(arenas_.batch, offset::labels);  // (B,T)

    // parameters
    const float* const w_embed_tokens = at<float>(arenas_.parameters, offset::w_embed_tokens);  // (V,C)
    const float* const w_norm = at<float>(arenas_.parameters, offset::w_norm);  // (C)
    const float* const w_lm_head = at<float>(arenas_.parameters, offset::w_lm_head);  // (V,C)

    // kept from forward to backward
    float* const embed_tokens = at<float>(arenas_.saved, offset::embed_tokens);  // (B,T,C)
    float* const residual = at<float>(arenas_.saved, offset::residual);  // (B,T,C)

    // activations, in memory that is reused
    float* const rstd = at<float>(arenas_.scratch, offset::rstd);  // (B,T,1)
    float* const norm = at<float>(arenas_.scratch, offset::norm);  // (B,T,C)
    float* const lm_head = at<float>(arenas_.scratch, offset::lm_head);  // (B,T,V)
    float* const loss = at<float>(arenas_.scratch, offset::loss);  // scalar
    float* const loss_lse = at<float>(arenas_.scratch, offset::loss_lse);  // (B*T)

    wait_for_update(arenas_, update_part::embed_tokens, stream);
    // model.embed_tokens: y = rows of the table by id
    embedding_forward({.y = embed_tokens, .weight = w_embed_tokens, .ids = input_ids, .rows = B * T, .entries = V,
        .width = C}, stream);

    // x (B,T,C), one slot more than layers: slot 0 is embed_tokens, slot L residual
    const auto x_slot = [this](std::int64_t slot) {
        return at<float>(arenas_.saved, offset::x_slot + slot * offset::x_slot_stride);
    };
    for (std::int64_t layer = 0; layer < L; ++layer) {
        wait_for_update(arenas_, update_part::layers + layer, stream);
        decoder_layer_forward(arenas_, x_slot(layer + 1), x_slot(layer), decoder_layer_weights(arenas_, layer),
            decoder_layer_saved(arenas_, layer), arenas_.scratch + offset::decoder_layer_forward_scratch, stream);
    }

    wait_for_update(arenas_, update_part::norm, stream);
    // model.norm: rstd = rsqrt(mean_C(residual^2) + 1e-05); norm = residual * rstd * w_norm
    rms_norm_forward(rstd, norm, residual, w_norm, stream);
    // lm_head: y = x Wᵀ
    linear_forward({.y = lm_head, .x = norm, .weight = w_lm_head, .rows = B * T, .in = C, .out = V}, stream);
    // loss: loss = sum of log-sum-exp minus the label's logit, over rows with a label
    cross_entropy_forward({.loss = loss, .lse = loss_lse, .logits = lm_head, .labels = labels, .ignore_index = -100,
        .rows = B * T, .classes = V}, stream);
    // scalars->loss_sum += loss
    add_to_loss_sum(&arenas_.scalars->loss_sum, loss, stream);
}

void Model::backward([[maybe_unused]] WriteMode mode) {
    [[maybe_unused]] Stream& stream = stream_;
    const Range range("backward");  // as a GPU's profilers show it
    // The trainer has set arenas_.scalars->dloss: 1 / loss_weight, summed over the step's micro-batches.

    namespace offset = layout::forward_backward;

    // the micro-batch
    const std::int64_t* const input_ids = at<std::int64_t>(arenas_.batch, offset::input_ids);  // (B,T)
    const std::int64_t* const labels = at<std::int64_t>(arenas_.batch, offset::labels);  // (B,T)

    // parameters
    const float* const w_norm = at<float>(arenas_.parameters, offset::w_norm);  // (C)
    const float* const w_lm_head = at<float>(arenas_.parameters, offset::w_lm_head);  // (V,C)

    // their gradients
    float* const g_norm = at<float>(arenas_.gradients, offset::g_norm);  // (C)
    float* const g_lm_head = at<float>(arenas_.gradients, offset::g_lm_head);  // (V,C)
    float* const g_embed_tokens = at<float>(arenas_.gradients, offset::g_embed_tokens);  // (V,C)

    // kept from forward to backward
    float* const residual = at<float>(arenas_.saved, offset::residual);  // (B,T,C)

    // activations, in memory that is reused
    float* const rstd = at<float>(arenas_.scratch, offset::rstd);  // (B,T,1)
    float* const norm = at<float>(arenas_.scratch, offset::norm);  // (B,T,C)
    float* const lm_head = at<float>(arenas_.scratch, offset::lm_head);  // (B,T,V)
    float* const loss_lse = at<float>(arenas_.scratch, offset::loss_lse);  // (B*T)
    float* const dlm_head = at<float>(arenas_.scratch, offset::dlm_head);  // (B*T,V)
    float* const dnorm = at<float>(arenas_.scratch, offset::dnorm);  // (B,T,C)
    float* const dresidual = at<float>(arenas_.scratch, offset::dresidual);  // (B,T,C)
    float* const dembed_tokens = at<float>(arenas_.scratch, offset::dembed_tokens);  // (B,T,C)

    // loss: dlogits = (softmax(logits) - one_hot(label)) dloss
    cross_entropy_backward({.dlogits = dlm_head, .logits = lm_head, .labels = labels, .lse = loss_lse,
        .dloss = &arenas_.scalars->dloss, .ignore_index = -100, .rows = B * T, .classes = V}, stream);
    // lm_head: dx = dy W
    linear_backward_input({.dx = dnorm, .dy = dlm_head, .weight = w_lm_head, .rows = B * T, .in = C, .out = V}, stream);
    // the update of the step before reads the gradients, which are written from here on
    wait_for_updates(arenas_, stream);
    // lm_head: dW += dyᵀ x
    linear_backward_weight({.dweight = g_lm_head, .dy = dlm_head, .x = norm, .mode = mode, .rows = B * T, .in = C,
        .out = V}, stream);
    // model.norm:
    //   dresidual = rstd * (dnormed - normed * mean_C(dnormed * normed))
    //   g_norm += sum_{B,T}(dnorm * normed)
    //   where dnormed = dnorm * w_norm
    //   where normed = residual * rstd
    rms_norm_backward(dresidual, g_norm, dnorm, w_norm, residual, rstd, mode, stream);

    // dy (B,T,C), in two slots by turns: slot 0 is dresidual, slot L dembed_tokens
    const auto dy_slot = [this](std::int64_t slot) {
        return at<float>(arenas_.scratch, offset::dy_slot + slot % 2 * offset::dy_slot_stride);
    };
    for (std::int64_t layer = L - 1; layer >= 0; --layer) {
        decoder_layer_backward(arenas_, dy_slot(L - layer), dy_slot(L - 1 - layer), decoder_layer_saved(arenas_, layer),
            decoder_layer_weights(arenas_, layer), decoder_layer_gradients(arenas_, layer),
            arenas_.scratch + offset::decoder_layer_backward_scratch, mode, stream);
    }

    // model.embed_tokens: dW += rows of dy by id
    embedding_backward({.dweight = g_embed_tokens, .dy = dembed_tokens, .ids = input_ids, .mode = mode, .rows = B * T,
        .entries = V, .width = C}, stream);
}

void Model::loss_weight() {
    [[maybe_unused]] Stream& stream = stream_;
    const Range range("loss_weight");  // as a GPU's profilers show it

    namespace offset = layout::loss_weight;

    // the micro-batch
    const std::int64_t* const labels = at<std::int64_t>(arenas_.batch, offset::labels);  // (B,T)

    // loss: scalars->loss_weight += sum(labels != -100)
    cross_entropy_weight(&arenas_.scalars->loss_weight, labels, stream);
}

void Model::clip() {
    [[maybe_unused]] Stream& stream = stream_;
    const Range range("clip");  // as a GPU's profilers show it

    // the norm of all gradients, and the factor that clips them
    global_norm({.scalars = arenas_.scalars, .gradients = at<float>(arenas_.gradients, 0),
        .elements = PARAMETER_BYTES / static_cast<std::int64_t>(sizeof(float))}, stream);
}

void Model::update([[maybe_unused]] const UpdatePart& part, [[maybe_unused]] Stream& stream) {
    const Range range("update");  // as a GPU's profilers show it

    // AdamW on the part's parameters, in one pass over memory; states: first_moment, second_moment
    adamw({.parameters = at<float>(arenas_.parameters, 0), .gradients = at<float>(arenas_.gradients, 0),
        .states = {at<float>(arenas_.optimizer, 0), at<float>(arenas_.optimizer, PARAMETER_BYTES)},
        .segments = part.segments, .scalars = part.scalars}, stream);
}
