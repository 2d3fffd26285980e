// SPDX-License-Identifier: Apache-2.0
// Graph -> instructions. Each composite operation has one small function, listed in a table.
#include "graph/lowering.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>

#include "graph/placement.h"

namespace tutti::graph {

std::size_t Lowering::axis(const std::string& name) {
  const auto found = std::find(code_.axes.begin(), code_.axes.end(), name);
  if (found != code_.axes.end()) return static_cast<std::size_t>(found - code_.axes.begin());
  code_.axes.push_back(name);
  return code_.axes.size() - 1;
}

Operand Lowering::made(Tensor t, Shape shape) {
  t.name = node().name, t.node = current_, t.elements = shape.elements();
  const Operand o{code_.tensors.size(), std::move(shape), t.elements, t.per_sample, t.axis};
  code_.tensors.push_back(std::move(t));
  return o;
}

Operand Lowering::leaf(Tensor::Kind kind) {
  const Value& value = values_[current_];
  Tensor t;
  t.kind = kind;
  t.per_sample = value.per_sample;
  if (t.per_sample) t.axis = axis(value.axis);
  t.sparse = flag(node(), "sparse", false);
  t.trained = kind == Tensor::Kind::parameter && number(node(), "learningRateMultiplier", 1) != 0;
  Operand o = made(std::move(t), value.shape);
  o.lasting = kind == Tensor::Kind::parameter;
  return o;
}

Operand Lowering::state(std::size_t elements) {
  Tensor t;
  t.kind = Tensor::Kind::statistic;
  return made(std::move(t), Shape{{elements}});
}

// An instruction that belongs to the current node; its shape follows from the rule of its operation.
Operand Lowering::emit(const std::string& operation, std::vector<Operand> in,
                       std::map<std::string, Attribute> attributes) {
  Instruction i;
  i.operation = operation;
  i.node = {node().name, operation, {}, std::move(attributes), node().where};
  std::vector<Shape> shapes;
  for (const auto& o : in) shapes.push_back(o.shape);
  Tensor t;
  Shape shape = infer_shape(i.node, shapes);
  if (shape.rank() >= Layout::max_rank)
    throw ConfigError(node().where, fmt::format("'{}' has {} axes, more than the {} that are possible", node().name,
                                                shape.rank(), Layout::max_rank - 1));
  for (const auto& o : in)
    if (o.per_sample && keeps_sample_axis(i.node)) t.per_sample = true, t.axis = o.axis;
  const Operand out = made(std::move(t), std::move(shape));
  if (operation == "Dropout") i.random_index = code_.random_nodes++;
  // A declared sparse input is passed to its product without conversion.
  if ((operation == "Times" || operation == "TransposeTimes") && code_.tensors[in[1].tensor].sparse &&
      !in[0].per_sample && in[1].per_sample && in[0].elements == out.elements * in[1].elements &&
      (operation == "Times" || in[0].shape[0] == in[1].elements))
    i.reads_sparse = true;
  i.in = std::move(in);
  i.out = out;
  code_.instructions.push_back(std::move(i));
  return out;
}

Operand Lowering::as_written() {
  std::vector<Operand> in;
  for (std::size_t k = 0; k < node().inputs.size(); ++k) in.push_back(input(k));
  Operand out = emit(node().operation, std::move(in), node().attributes);
  if (out.per_sample) {
    if (is_time_slice(node())) code_.instructions.back().operation = "SliceTime";
    out.axis = axis(values_[current_].axis);
    code_.tensors[out.tensor].axis = code_.instructions.back().out.axis = out.axis;
  }
  return out;
}

Operand Lowering::delay() {
  Instruction i;
  i.operation = node().operation;
  i.node = {node().name, node().operation, {}, node().attributes, node().where};
  const std::size_t input = node().inputs[0];
  if (const auto made = code_.of_node.find(input); made != code_.of_node.end())
    i.in.push_back(made->second);
  else
    i.in.emplace_back(), open_.emplace_back(code_.instructions.size(), input);
  for (std::size_t k = 1; k < node().inputs.size(); ++k) i.in.push_back(this->input(k));
  Tensor t;
  t.per_sample = true, t.axis = axis(values_[current_].axis);
  i.out = made(std::move(t), shape());
  const Operand out = i.out;
  code_.instructions.push_back(std::move(i));
  return out;
}

void Lowering::close_delays() {
  for (const auto& [instruction, input] : open_) code_.instructions[instruction].in[0] = code_.of_node.at(input);
}

// Composite operations.
namespace {

Operand see_through(Lowering& l) { return Lowering::view(l.input(0), l.shape()); }

Operand dropout(Lowering& l) {
  return l.training() ? l.emit("Dropout", {l.input(0)}, l.node().attributes)
                      : l.input(0);  // identity outside of training
}

Operand cross_entropy(Lowering& l) {
  Operand labels = l.input(0);
  if (const double amount = l.label_smoothing(); amount > 0) {
    const Operand mean = l.emit("ReduceElements", {labels},
                                {{"op", std::string("Mean")}, {"axis", number(l.node(), "axis", 0)}});
    labels = l.emit("Plus", {labels, mean}, {{"amount", amount}});
    l.run_as("SmoothLabels");
  }
  return l.emit("CrossEntropyWithSoftmax", {labels, l.input(1)}, l.node().attributes);
}

// Counts of samples: of the class by label and prediction, by prediction, by label.
enum class ClassMetric { precision, recall, f1 };
template <ClassMetric metric>
Operand class_metric(Lowering& l) {
  const double begin = number(l.node(), "class", 1);
  const auto is_of_class = [&](const Operand& x) {
    const Operand one_hot = l.emit("Hardmax", {Lowering::view(x, Shape{{x.elements}})});
    return l.emit("Slice", {one_hot}, {{"begin", begin}, {"end", begin + 1}, {"axis", 1.0}});
  };
  const auto sum = [&](const Operand& x) { return l.emit("SumElements", {x}); };
  const Operand label = is_of_class(l.input(0)), guess = is_of_class(l.input(1));
  const Operand both = l.emit("ElementTimes", {label, guess});
  if constexpr (metric == ClassMetric::precision) l.divide_by(sum(guess));
  if constexpr (metric == ClassMetric::recall) l.divide_by(sum(label));
  if constexpr (metric == ClassMetric::f1) {
    l.divide_by(sum(l.emit("Plus", {label, guess})));
    return sum(l.emit("Plus", {both, both}));
  }
  return sum(both);
}

Operand diag_times(Lowering& l) { return l.emit("ElementTimes", {l.input(0), l.input(1)}); }

Operand khatri_rao(Lowering& l) {
  const Operand a = l.input(0), b = l.input(1);
  const Operand outer =
      l.emit("ElementTimes", {Lowering::view(a, Shape{{a.elements}}), Lowering::view(b, Shape{{1, b.elements}})});
  return Lowering::view(outer, l.shape());
}

// One or several one-hot vectors in a row, each of which selects a column of the table.
Operand lookup_table(Lowering& l) {
  const Operand table = l.input(0), x = l.input(1);
  const std::size_t words = table.shape[1], vectors = x.elements / words;
  const Operand found =
      l.emit("Times", {table, Lowering::view(x, vectors == 1 ? Shape{{words}} : Shape{{words, vectors}})},
             {{"outputRank", 1.0}});
  return Lowering::view(found, l.shape());
}

Operand row_repeat(Lowering& l) {
  const auto repeats = static_cast<std::size_t>(number(l.node(), "numRepeats", 1));
  const auto last = static_cast<double>(std::max<std::size_t>(l.input(0).shape.rank(), 1));
  return l.emit("RowStack", std::vector<Operand>(repeats, l.input(0)), {{"axis", last}});
}

Operand frobenius_norm(Lowering& l) {
  return l.emit("Sqrt", {l.emit("SumElements", {l.emit("ElementTimes", {l.input(0), l.input(0)})})});
}

Operand column_sum(Lowering& l, const Operand& o) {
  return l.emit("ReduceElements", {o}, {{"op", std::string("Sum")}, {"axis", 0.0}});
}
Operand sum_column_elements(Lowering& l) { return column_sum(l, l.input(0)); }

Operand cos_distance(Lowering& l) {
  const Operand a = l.input(0), b = l.input(1);
  const Operand dot = column_sum(l, l.emit("ElementTimes", {a, b}));
  const Operand aa = column_sum(l, l.emit("ElementTimes", {a, a})), bb = column_sum(l, l.emit("ElementTimes", {b, b}));
  const Operand norms = l.emit("Sqrt", {l.emit("ElementTimes", {aa, bb})});
  return l.emit("ElementTimes", {dot, l.emit("Reciprocal", {norms})});
}

// The angle to the sample's own partner, and to those of other samples of the minibatch.
Operand negative_samples(Lowering& l) {
  const Operand a = l.input(0), b = l.input(1);
  const auto shift = number(l.node(), "shift", 1), negatives = number(l.node(), "negatives", 1);
  const auto shifted = [&](const Operand& o, double by) {
    const Operand moved = l.emit("Pass", {o}, {{"by", by}});
    l.run_as("ShiftSamples");
    return moved;
  };
  const Operand aa = column_sum(l, l.emit("ElementTimes", {a, a})), bb = column_sum(l, l.emit("ElementTimes", {b, b}));
  std::vector<Operand> products, squares;
  for (double k = 0; k <= negatives; ++k) {
    const double by = shift + k - 1;
    products.push_back(column_sum(l, l.emit("ElementTimes", {a, k == 0 ? b : shifted(b, by)})));
    squares.push_back(k == 0 ? bb : shifted(bb, by));
  }
  const Operand dots = l.emit("RowStack", products);
  const Operand norms = l.emit("Sqrt", {l.emit("ElementTimes", {aa, l.emit("RowStack", squares)})});
  return l.emit("ElementTimes", {dots, l.emit("Reciprocal", {norms})});
}

using Composite = Operand (*)(Lowering&);
const std::map<std::string, Composite>& composites() {
  static const std::map<std::string, Composite> table = {
      {"Pass", see_through},
      {"Trace", see_through},
      {"Reshape", see_through},
      {"Dropout", dropout},
      {"CrossEntropyWithSoftmax", cross_entropy},
      {"Precision", class_metric<ClassMetric::precision>},
      {"Recall", class_metric<ClassMetric::recall>},
      {"F1Score", class_metric<ClassMetric::f1>},
      {"DiagTimes", diag_times},
      {"KhatriRaoProduct", khatri_rao},
      {"LookupTable", lookup_table},
      {"RowRepeat", row_repeat},
      {"MatrixL2Reg", frobenius_norm},
      {"SumColumnElements", sum_column_elements},
      {"CosDistance", cos_distance},
      {"CosDistanceWithNegativeSamples", negative_samples},
      {"Convolution", lower_convolution},
      {"Pooling", lower_pooling},
      {"MaxUnpooling", lower_unpooling},
      {"ROIPooling", lower_roi_pooling},
      {"BatchNormalization", lower_batch_normalization},
  };
  return table;
}

}  // namespace

Operand Lowering::lower_node() {
  const std::string& operation = node().operation;
  if (operation == "InputValue") return leaf(Tensor::Kind::input);
  if (operation == "LearnableParameter") return leaf(Tensor::Kind::parameter);
  if (operation == "Mean" || operation == "InvStdDev") return leaf(Tensor::Kind::statistic);
  if (is_delay(operation)) return delay();
  const auto composite = composites().find(operation);
  return composite == composites().end() ? as_written() : composite->second(*this);
}

Operand Lowering::share_of(const Operand& o) {
  const Operand share = emit("Pass", {o});
  run_as("ShareOfMinibatch");
  return share;
}

// Only this node gets the share of a term; other users get the whole of it.
Operand Lowering::with_shares() {
  std::map<std::size_t, Operand> whole;
  for (const std::size_t input : node().inputs)
    if (terms_ && terms_->inputs.contains({current_, input})) whole.emplace(input, code_.of_node.at(input));
  for (const auto& [input, o] : whole) code_.of_node[input] = share_of(o);
  Operand result = lower_node();
  for (auto& [input, o] : whole) code_.of_node[input] = std::move(o);
  return result;
}

Lowered Lowering::run(const std::vector<std::size_t>& order) {
  for (const auto index : order) {
    current_ = index;
    code_.of_node[index] = with_shares();
  }
  close_delays();
  if (terms_)
    for (const std::size_t root : terms_->whole) {
      current_ = root;
      code_.of_node[root] = share_of(code_.of_node.at(root));
    }
  for (const auto& i : code_.instructions) code_.sequential = code_.sequential || needs_sequences(i.operation);
  return std::move(code_);
}

Lowered lower(const Graph& graph, const std::vector<std::size_t>& order, const std::vector<Value>& values,
              const std::vector<std::size_t>& roots, const LowerOptions& options) {
  Lowered code = Lowering(graph, values, options.training, options.label_smoothing, options.terms).run(order);
  if (options.model_parallel) place_layers(code, roots, *options.model_parallel, *options.shards);
  recognize_grus(graph, code, roots);
  fuse_bias_and_activation(code, roots);
  if (options.fused_recurrent_inputs) fuse_recurrent_inputs(code, roots);
  group_loops(code);
  if (options.fused_products) fuse_into_products(code, roots);
  fuse_images(code, roots);
  if (!options.winograd)
    for (auto& i : code.instructions) i.node.attributes["winograd"] = false;
  // Layouts are chosen in one walk from inputs to users, which is impossible with a loop.
  if (options.channel_block > 0 && code.loops.empty())
    choose_layouts(code, roots, options.channel_block, options.half_element);
  if (options.half_element != Element::float32 && code.loops.empty())
    choose_half_values(code, roots, options.half_element);
  return code;
}

}  // namespace tutti::graph
