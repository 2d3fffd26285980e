// SPDX-License-Identifier: Apache-2.0
// Keras layers on sequences.
#include <fmt/format.h>

#include <algorithm>

#include "brainscript/keras.h"

namespace tutti::brainscript::keras {
namespace {

struct Recurrent {
  std::string function;
  std::size_t units = 0;
  bool sequences = false, backwards = false;
};

// The bias of a layer with `gates` blocks as an array, or 0 where there is none. Block `one`, if it is one of them,
// begins at 1.
std::string bias_text(const Layer& l, std::size_t units, std::size_t gates, std::size_t one) {
  if (!flag(l, {"use_bias"}, true)) return "0";
  const double value = constant_initial(l, {"bias_initializer"});
  std::string all;
  for (std::size_t g = 0; g < gates; ++g)
    all += fmt::format("{}Repeat ({}, {})", g ? " : " : "", units, one == g ? 1.0 : value);
  return all;
}

Recurrent recurrent_function(Writer& w, const Layer& l, bool turned) {
  Recurrent r;
  r.units = count(l, {"units", "output_dim"});
  r.sequences = flag(l, {"return_sequences"}, false);
  r.backwards = flag(l, {"go_backwards"}, false) != turned;
  for (const char* key : {"stateful", "return_state"})
    if (flag(l, {key}, false)) fail(l, fmt::format("{} = true is not known here", key));
  for (const char* key : {"recurrent_dropout", "dropout_U"})
    if (number(l, {key}, 0) != 0)
      fail(l, "dropout inside of the recurrence is not known here", "put a Dropout layer in front");
  note_ignored(w, l);
  const std::string kind = l.kind.starts_with("CuDNN") ? l.kind.substr(5) : l.kind;
  const std::string activation = activation_function(activation_name(l, {"activation"}, "tanh"));
  const std::string gate = activation_function(
      activation_name(l, {"recurrent_activation", "inner_activation"}, l.kind == kind ? "hardsigmoid" : "sigmoid"));
  const bool plain = activation == "Tanh" && gate == "Sigmoid";
  const Initial first = initial(l, {"kernel_initializer", "init"}, "glorot_uniform");
  const Initial inner = initial(l, {"recurrent_initializer", "inner_init"}, "orthogonal");
  for (const Initial* i : {&first, &inner})
    if (i->init == "fixedValue") fail(l, "its weights cannot begin with a constant");
  const std::string weights =
      fmt::format("'{}', {}, '{}', {}, {}", first.init, first.scale, inner.init, inner.scale, r.backwards);
  if (kind == "LSTM") {
    const bool forget = setting(l, {"forget_bias_init"}) ? plain_name(setting(l, {"forget_bias_init"})) == "one"
                                                         : flag(l, {"unit_forget_bias"}, true);
    r.function = w.function(l, fmt::format("_Keras.Lstm {{{}, ({}), {}, {}, {}, {}}}", r.units,
                                           bias_text(l, r.units, 4, forget ? 2 : 4), activation, gate, weights, plain));
  } else if (kind == "GRU") {
    r.function =
        w.function(l, fmt::format("_Keras.Gru {{{}, ({}), {}, {}, {}, {}, {}}}", r.units, bias_text(l, r.units, 3, 3),
                                  activation, gate, weights, flag(l, {"reset_after"}, l.kind != kind), plain));
  } else {
    r.function = w.function(l, fmt::format("_Keras.Simple {{{}, ({}), {}, {}}}", r.units, bias_text(l, r.units, 1, 1),
                                           activation, weights));
  }
  return r;
}

Tensor recurrent_input(Writer& w, const Layer& l, const Inputs& in) {
  const Tensor& x = only(l, in);
  if (!x.sequence || x.shape.size() != 1)
    fail(l, "needs sequences of vectors", "the layer in front must give sequences: return_sequences = true");
  const double rate = number(l, {"dropout", "dropout_W"}, 0);
  return rate > 0 ? made(w, l, x, fmt::format("Dropout ({}, rate={})", x.name, rate), "_input") : x;
}

// The states of all steps, or the last one where the layer gives no sequences. `turned`: it runs the other way.
Tensor states(Writer& w, const Layer& l, const Inputs& in, bool turned, bool* backwards = nullptr) {
  const Tensor x = recurrent_input(w, l, in);
  const Recurrent r = recurrent_function(w, l, turned);
  if (backwards) *backwards = r.backwards;
  Tensor h = made(w, l, x, fmt::format("{} ({})", r.function, x.name), "_states");
  h.shape = {r.units};
  if (r.sequences) return h;
  h.sequence = false;
  h.name = w.define(l.name + "_output", fmt::format("ReconcileDynamicAxis (BS.Sequences.{} ({}), _labels)",
                                                    r.backwards ? "First" : "Last", h.name));
  return h;
}

Layer inner_layer(const Layer& l, const std::string& prefix) {
  const YAML::Node inner = setting(l, {"layer"});
  if (!inner || !inner.IsMap() || !inner["class_name"]) fail(l, "has no layer inside");
  Layer one;
  one.kind = inner["class_name"].Scalar();
  one.config.reset(inner["config"]);
  one.where = l.where;
  one.name = prefix.empty() ? l.name : l.name + "_" + prefix;
  return one;
}

}  // namespace

bool is_recurrent(const std::string& kind) {
  static const std::vector<std::string> kinds = {"LSTM",     "GRU",           "SimpleRNN",       "CuDNNLSTM",
                                                 "CuDNNGRU", "Bidirectional", "TimeDistributed", "Embedding"};
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

Tensor embedding(Writer& w, const Layer& l, const Inputs& in) {
  const Tensor& x = only(l, in);
  note_ignored(w, l);
  const std::size_t width = count(l, {"output_dim"});
  const std::string f = w.function(l, fmt::format("EmbeddingLayer {{{}, {}}}", width,
                                                  initial(l, {"embeddings_initializer", "init"}, "uniform").text(l)));
  Tensor y = made(w, l, x, fmt::format("{} ({})", f, x.name));
  y.shape = {width};
  return y;
}

Tensor recurrent(Writer& w, const Layer& l, const Inputs& in) {
  bool backwards = false;
  Tensor h = states(w, l, in, false, &backwards);
  // Keras returns the states of a reversed layer in the order in which it computed them.
  if (h.sequence && backwards) h.name = w.define(l.name + "_output", fmt::format("TimeReverse ({})", h.name));
  return h;
}

Tensor bidirectional(Writer& w, const Layer& l, const Inputs& in) {
  const Layer ahead = inner_layer(l, "forward"), back = inner_layer(l, "backward");
  if (!is_recurrent(ahead.kind) || ahead.kind == "Bidirectional")
    fail(l, fmt::format("cannot turn a {} around", ahead.kind));
  const std::string mode = text(l, {"merge_mode"}, "concat");
  const Tensor first = states(w, ahead, in, false), second = states(w, back, in, true);
  return merged(w, l, {first, second}, mode, -1);
}

Tensor time_distributed(Writer& w, const Layer& l, const Inputs& in) {
  Layer inner = inner_layer(l, "");
  if (!only(l, in).sequence) fail(l, "needs sequences");
  Tensor step = in[0];
  step.sequence = false;
  step = apply(w, inner, {step});
  step.sequence = true;
  return step;
}

}  // namespace tutti::brainscript::keras
