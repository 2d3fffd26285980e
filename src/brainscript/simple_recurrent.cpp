// SPDX-License-Identifier: Apache-2.0
// The recurrent networks and language models of SimpleNetworkBuilder: the same nodes, made in the same order with the
// same seeds as the original, because initial weights depend on the order.
#include <fmt/format.h>

#include <algorithm>

#include "brainscript/simple_parts.h"

namespace tutti::brainscript {
namespace {

class Recurrent : public SimpleParts {
 public:
  using SimpleParts::SimpleParts;

  graph::Graph run() {
    switch (o_.type) {
      case SimpleType::recurrent:
        simple_rnn();
        break;
      case SimpleType::class_recurrent:
        class_rnn();
        break;
      case SimpleType::lstm:
        lstm();
        break;
      case SimpleType::class_lstm:
      case SimpleType::conditional_lstm:
        class_lstm();
        break;
      case SimpleType::log_bilinear:
        log_bilinear();
        break;
      case SimpleType::neural_prob:
        neural_prob();
        break;
      case SimpleType::feed_forward:
      case SimpleType::noise_contrastive:
      case SimpleType::random_field:
        break;
    }
    return std::move(g_);
  }

 private:
  std::int64_t size(std::size_t layer) const { return o_.layer_sizes.values[layer]; }
  std::size_t hidden_layers() const { return o_.layer_sizes.size() - 2; }
  std::size_t order() const { return static_cast<std::size_t>(o_.lookup_table_order); }

  // The next of recurrentLayer, which are taken one by one; the last one stays.
  bool next_recurrent(std::size_t layer) {
    const auto& layers = o_.recurrent_layers.values;
    if (layers.empty() || layers[std::min(recurrent_, layers.size() - 1)] != static_cast<std::int64_t>(layer))
      return false;
    ++recurrent_;
    return true;
  }

  std::size_t times(std::size_t w, std::size_t x, std::string name = {}) {
    return node(std::move(name), "Times", {w, x}, {{"outputRank", 1.0}});
  }
  std::size_t plus(std::size_t a, std::size_t b) { return node({}, "Plus", {a, b}); }
  std::size_t dropout(std::size_t x) { return o_.add_dropout_nodes ? node({}, "Dropout", {x}) : x; }
  // Its input comes later, unless it is given.
  std::size_t past(std::int64_t dim, std::vector<std::size_t> of = {}, std::size_t steps = 1, std::string name = {}) {
    return node(std::move(name), "PastValue", std::move(of),
                {{"dims", std::vector<double>{static_cast<double>(dim)}},
                 {"timeStep", static_cast<double>(steps)},
                 {"defaultHiddenActivation", o_.default_hidden_activity}});
  }
  void close(std::size_t delay, std::size_t input) { g_.nodes[delay].inputs = {input}; }

  std::size_t features(bool sparse) {
    std::size_t x = input("features", size(0), sparse);
    g_.features = {x};
    if (!o_.apply_mean_var_norm) return x;
    const std::size_t mean = node({}, "Mean", {x}), deviation = node({}, "InvStdDev", {x});
    return node({}, "PerDimMeanVarNormalization", {x, mean, deviation});
  }

  std::size_t lookup_table(std::size_t x) {
    const std::size_t table = random_parameter("E0", size(1), size(0) / o_.lookup_table_order);
    return dropout(node("LookupTable", "LookupTable", {table, x}));
  }

  // U x + W h(t-1), or U x + b.
  std::size_t layer(std::size_t i, std::size_t x, bool random_bias) {
    const std::size_t u = random_parameter(fmt::format("U{}", i), size(i + 1), size(i));
    if (next_recurrent(i + 1)) return recurrent_layer(i, x, u, 0);
    const auto bias = fmt::format("B{}", i);
    const std::size_t b =
        random_bias ? random_parameter(bias, size(i + 1), 1) : constant_parameter(bias, size(i + 1), 1);
    return nonlinearity(i, plus(times(u, x), b));
  }

  std::size_t recurrent_layer(std::size_t i, std::size_t x, std::size_t u, std::size_t nonlinear_as) {
    const std::size_t w = random_parameter(fmt::format("W{}", i), size(i + 1), size(i + 1));
    const std::size_t before = past(size(i + 1));
    const std::size_t from_below = times(u, x), from_before = times(w, before);
    const std::size_t h = nonlinearity(nonlinear_as, plus(from_below, from_before));
    close(before, h);
    return h;
  }

  struct Gate {
    std::size_t x, h, c, bias;
  };

  // gate = sigmoid (Wx x + b + Wh h + wc * c), where c and h are those of the last step unless `cell` is given
  std::size_t gate(const Gate& p, std::size_t x, std::size_t h, std::size_t cell) {
    const std::size_t from_below = plus(times(p.x, x), p.bias), from_before = times(p.h, h);
    const std::size_t peephole = node({}, "DiagTimes", {p.c, cell});
    return nonlinearity(0, plus(plus(from_below, from_before), peephole));
  }

  // With peepholes. Each use of the last step is a delay of its own, as in the original.
  std::size_t lstm_layer(std::size_t i, std::int64_t in, std::int64_t out, std::size_t x) {
    const auto named = [&](const char* kind) { return fmt::format("{}{}", kind, i); };
    Gate output{}, entry{}, forget{};
    output.x = random_parameter(named("WXO"), out, in);
    entry.x = random_parameter(named("WXI"), out, in);
    forget.x = random_parameter(named("WXF"), out, in);
    const std::size_t cell_x = random_parameter(named("WXC"), out, in);
    output.bias = constant_parameter(named("bo"), out, 1, o_.output_gate_bias);
    const std::size_t cell_bias = constant_parameter(named("bc"), out, 1);
    entry.bias = constant_parameter(named("bi"), out, 1, o_.input_gate_bias);
    forget.bias = constant_parameter(named("bf"), out, 1, o_.forget_gate_bias);
    entry.h = random_parameter(named("WHI"), out, out), entry.c = random_parameter(named("WCI"), out, 1);
    forget.h = random_parameter(named("WHF"), out, out), forget.c = random_parameter(named("WCF"), out, 1);
    output.h = random_parameter(named("WHO"), out, out), output.c = random_parameter(named("WCO"), out, 1);
    const std::size_t cell_h = random_parameter(named("WHC"), out, out);

    std::vector<std::size_t> past_h, past_c;
    const auto h_before = [&] { return past_h.emplace_back(past(out)); };
    const auto c_before = [&] { return past_c.emplace_back(past(out)); };

    std::size_t fresh = 0, kept = 0;
    const auto candidate = [&] {
      const std::size_t from_below = times(cell_x, x), from_before = plus(times(cell_h, h_before()), cell_bias);
      return node({}, "Tanh", {plus(from_below, from_before)});
    };
    if (o_.constant_input_gate) {
      fresh = candidate();
    } else {
      const std::size_t h = h_before(), c = c_before();
      const std::size_t open = gate(entry, x, h, c);
      fresh = node({}, "ElementTimes", {open, candidate()});
    }
    if (o_.constant_forget_gate) {
      kept = c_before();
    } else {
      const std::size_t h = h_before(), c = c_before();
      const std::size_t open = gate(forget, x, h, c);
      kept = node({}, "ElementTimes", {open, c_before()});
    }
    const std::size_t cell = plus(kept, fresh);
    std::size_t h = node({}, "Tanh", {cell});
    if (!o_.constant_output_gate) {
      const std::size_t open = gate(output, x, h_before(), cell);
      h = node({}, "ElementTimes", {open, h});
    }
    for (const std::size_t delay : past_h) close(delay, h);
    for (const std::size_t delay : past_c) close(delay, cell);
    return dropout(h);
  }

  // The first LSTM, which the types with LSTMs begin with.
  std::size_t first_lstm(std::size_t x) {
    const std::size_t offset = order() > 0 ? 1 : 0;
    return lstm_layer(0, size(offset) * std::max<std::int64_t>(o_.lookup_table_order, 1), size(offset + 1), x);
  }

  std::size_t criterion(SimpleCriterion c, std::string name, std::size_t labels, std::size_t z) {
    if (c == SimpleCriterion::logistic) z = node({}, "Sigmoid", {z});
    return node(std::move(name), operation_of(c), {labels, z});
  }

  // Criterion and evaluation are one node where they are the same.
  void criteria(std::size_t w, std::size_t x, bool sparse_labels = false, std::string training_name = {},
                std::string evaluation_name = {}) {
    const std::size_t labels = input("labels", size(hidden_layers() + 1), sparse_labels);
    g_.labels = {labels};
    const std::size_t z = times(w, x);
    if (training_name.empty()) training_name = operation_of(o_.training_criterion);
    if (evaluation_name.empty()) evaluation_name = "Eval" + operation_of(o_.eval_criterion);
    g_.criteria = {criterion(o_.training_criterion, training_name, labels, z)};
    g_.evaluations = o_.eval_criterion == o_.training_criterion
                         ? g_.criteria
                         : std::vector{criterion(o_.eval_criterion, evaluation_name, labels, z)};
  }

  std::size_t last_weight() {
    const std::size_t n = hidden_layers();
    return random_parameter(fmt::format("W{}", n), size(n + 1), size(n));
  }

  // A column for each word; returns the weight.
  std::size_t class_criteria(std::size_t x) {
    const std::size_t n = hidden_layers();
    const std::size_t w = random_parameter(fmt::format("W{}", n), size(n), size(n + 1));
    const std::size_t labels = input("labels", 4);
    g_.labels = {labels};
    const std::size_t class_weight = random_parameter("WeightForClassPostProb", o_.classes, size(n));
    const std::size_t scores = times(class_weight, x, "ClassPostProb");
    g_.criteria = {
        node("TrainNodeClassBasedCrossEntropy", operation_of(o_.training_criterion), {labels, x, w, scores})};
    g_.evaluations = g_.criteria;
    return w;
  }

  void posterior(std::size_t z) { node("PosteriorProb", "Softmax", {z}); }

  void simple_rnn() {
    std::size_t x = features(true);
    for (std::size_t i = 0; i < hidden_layers(); ++i) x = dropout(layer(i, x, false));
    const std::size_t w = last_weight();
    criteria(w, x, false, "criterion", "eval");
    g_.outputs = {times(w, x, "outputs")};
  }

  void class_rnn() {
    std::size_t x = features(true);
    for (std::size_t i = 0; i < hidden_layers(); ++i) x = dropout(layer(i, x, true));
    class_criteria(x);
    g_.outputs = g_.criteria;
  }

  void lstm() {
    std::size_t x = features(o_.sparse_input);
    const std::size_t offset = order() > 0 ? 1 : 0;
    if (offset > 0) x = lookup_table(x);
    x = first_lstm(x);
    for (std::size_t i = 1 + offset; i < hidden_layers(); ++i) {
      if (next_recurrent(i)) {
        x = lstm_layer(i, size(i), size(i + 1), x);
      } else {
        const std::size_t u = random_parameter(fmt::format("U{}", i), size(i + 1), size(i));
        const std::size_t b = constant_parameter(fmt::format("B{}", i), size(i + 1), 1);
        x = nonlinearity(i, plus(times(u, x), b));
      }
      x = dropout(x);
    }
    const std::size_t w = last_weight();
    criteria(w, x);
    const std::size_t z = times(w, x, "outputs");
    g_.outputs = {z};
    if (o_.need_prior) {
      const std::size_t prior = node({}, "Mean", g_.labels), log = node("LogOfPrior", "Log", {prior});
      g_.outputs = {node("ScaledLogLikelihood", "Minus", {z, log})};
    }
    posterior(z);
  }

  void class_lstm() {
    std::size_t x = first_lstm(lookup_table(features(true)));
    for (std::size_t i = 2; i < hidden_layers(); ++i) x = dropout(lstm_layer(i, size(i), size(i + 1), x));
    if (o_.type == SimpleType::conditional_lstm) x = with_global_bias(x);
    const std::size_t w = class_criteria(x);
    const std::size_t z = node("outputs", "TransposeTimes", {w, x});
    g_.outputs = {z};
    posterior(z);
  }

  std::size_t with_global_bias(std::size_t x) {
    const std::size_t n = hidden_layers();
    const std::size_t extra = input("binaryFeature", o_.extra_features);
    g_.features.push_back(extra);
    const std::size_t w = random_parameter("AuxTrans0", size(n), o_.extra_features);
    return node("PlusGlobalBias", "Plus", {x, nonlinearity(n, times(w, extra), "TimesToGetGlobalBias")});
  }

  void log_bilinear() {
    std::size_t x = features(false);
    std::int64_t width = size(0);
    const std::size_t offset = order() > 0 ? 1 : 0;
    if (offset > 0) x = lookup_table(x), width = size(1) * o_.lookup_table_order;
    std::size_t sum = x;
    for (std::int64_t k = 1; k <= o_.moving_average_order; ++k) {
      const std::size_t earlier = past(width, {x}, static_cast<std::size_t>(k), fmt::format("pastValue{}", k));
      const std::size_t w = random_parameter(fmt::format("DD{}", k), width, width);
      sum = plus(sum, times(w, earlier));
    }
    x = dropout(sum);
    for (std::size_t i = offset; i < hidden_layers(); ++i) {
      const std::int64_t in = i == offset ? width : size(i);
      std::size_t z = times(random_parameter(fmt::format("U{}", i), size(i + 1), in), x);
      if (next_recurrent(i + 1)) {
        const std::size_t w = random_parameter(fmt::format("R{}", i + 1), size(i + 1), size(i + 1));
        const std::size_t before = past(size(i + 1));
        z = plus(times(w, before), z);
        close(before, z);
      }
      x = dropout(plus(z, constant_parameter(fmt::format("bi{}", i), size(i + 1), 1)));
    }
    const std::size_t w = last_weight();
    criteria(w, x);
    g_.outputs = {times(w, x, "outputs")};
  }

  // A hidden layer over the word and the four before it.
  void neural_prob() {
    std::size_t x = features(true);
    const std::size_t bias = constant_parameter("bi0", size(1), 1);
    next_recurrent(1);
    const auto weight = [&](const char* name) { return random_parameter(name, size(1), size(0)); };
    const std::size_t w2 = weight("WXI2"), w3 = weight("WXI3"), w4 = weight("WXI4"), w1 = weight("WXI1"),
                      w0 = weight("WXI");
    std::size_t sum = times(w0, x);
    for (const auto& [w, steps] : {std::pair{w1, 1}, std::pair{w2, 2}, std::pair{w3, 3}, std::pair{w4, 4}})
      sum = plus(times(w, past(size(0), {x}, static_cast<std::size_t>(steps))), sum);
    x = dropout(plus(node({}, "Tanh", {sum}), bias));
    for (std::size_t i = 1; i < hidden_layers(); ++i) {
      const std::size_t u = random_parameter(fmt::format("U{}", i), size(i + 1), size(i));
      if (next_recurrent(i + 1)) {
        x = recurrent_layer(i, x, u, i);
      } else {
        const std::size_t b = constant_parameter(fmt::format("B{}", i), size(i + 1), 1);
        x = nonlinearity(i, plus(times(u, x), b));
      }
      x = dropout(x);
    }
    const std::size_t w = last_weight();
    criteria(w, x, true);
    g_.outputs = {times(w, x)};
  }

  std::size_t recurrent_ = 0;  // how many of recurrentLayer have been taken
};

}  // namespace

graph::Graph build_simple_recurrent(const SimpleNetworkOptions& options, const SourcePos& where, bool constant_seed) {
  return Recurrent(options, where, constant_seed).run();
}

}  // namespace tutti::brainscript
