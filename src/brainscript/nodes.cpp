// SPDX-License-Identifier: Apache-2.0
// new Type { ... }: creates nodes from settings, checks their attributes, and answers queries about nodes (x.dim).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "brainscript/evaluator.h"
#include "brainscript/node_sets.h"
#include "graph/loops.h"
#include "graph/shapes.h"

namespace tutti::brainscript {

namespace {

// How an attribute is written in the language and stored in the graph. A value of None leaves the attribute away.
// Lists take one value or an array of them; flags are stored as 0 and 1.
enum class AttributeKind { integer, number, flag, text, dims, flags };
struct AttributeSpec {
  std::string name;
  AttributeKind kind;
};
using enum AttributeKind;
const std::vector<AttributeSpec> pooling = {{"poolingType", text},  {"kernelDims", dims}, {"stride", dims},
                                            {"autoPadding", flags}, {"lowerPad", dims},   {"upperPad", dims},
                                            {"ceilOutDim", flag},   {"includePad", flag}, {"imageLayout", text}};
// Of an operation, parameters excepted.
const std::map<std::string, std::vector<AttributeSpec>> attributes = {
    {"InputValue", {{"dims", dims}, {"sparse", flag}, {"dynamicAxis", text}}},
    {"PastValue", {{"dims", dims}, {"timeStep", integer}, {"defaultHiddenActivation", number}}},
    {"FutureValue", {{"dims", dims}, {"timeStep", integer}, {"defaultHiddenActivation", number}}},
    {"LSTM", {{"backwards", flag}, {"defaultHiddenActivation", number}}},
    {"GRU", {{"resetAfter", flag}, {"backwards", flag}, {"defaultHiddenActivation", number}}},
    {"Times", {{"outputRank", integer}, {"inferInputRankToMap", integer}}},
    {"TransposeTimes", {{"outputRank", integer}}},
    {"Softmax", {{"axis", integer}}},
    {"LogSoftmax", {{"axis", integer}}},
    {"CrossEntropyWithSoftmax", {{"axis", integer}}},
    {"ClassificationError", {{"topN", integer}, {"axis", integer}}},
    {"Precision", {{"class", integer}}},
    {"Recall", {{"class", integer}}},
    {"F1Score", {{"class", integer}}},
    {"CosDistanceWithNegativeSamples", {{"shift", integer}, {"negatives", integer}}},
    {"ReduceElements", {{"op", text}, {"axis", integer}}},
    {"Slice", {{"begin", integer}, {"end", integer}, {"axis", integer}}},
    {"RowStack", {{"axis", integer}}},
    {"RowRepeat", {{"numRepeats", integer}}},
    {"Reshape", {{"dims", dims}, {"beginAxis", integer}, {"endAxis", integer}}},
    {"TransposeDimensions", {{"axis1", integer}, {"axis2", integer}}},
    {"Convolution",
     {{"kernelDims", dims},
      {"mapDims", dims},
      {"stride", dims},
      {"sharing", flags},
      {"autoPadding", flags},
      {"lowerPad", dims},
      {"upperPad", dims},
      {"transpose", flag},
      {"outputShape", dims},
      {"groups", integer},
      {"imageLayout", text},
      {"maxTempMemSizeInSamples", integer}}},
    {"Pooling", pooling},
    {"Dropout", {{"rate", number}}},
    {"Trace",
     {{"say", text},
      {"logFrequency", integer},
      {"logFirst", integer},
      {"onlyUpToRow", integer},
      {"onlyUpToT", integer}}},
    {"MaxUnpooling", pooling},
    {"ROIPooling", {{"shape", dims}, {"spatialScale", number}}},
    {"BatchNormalization",
     {{"spatial", flag},
      {"normalizationTimeConstant", number},
      {"blendTimeConstant", number},
      {"epsilon", number},
      {"useCntkEngine", flag},
      {"disableRegularization", flag},
      {"synchronized", flag},
      {"imageLayout", text}}},
    {"LocalResponseNormalization", {{"depthRadius", integer}, {"bias", number}, {"alpha", number}, {"beta", number}}},
};

}  // namespace

Thunk* find_setting(const Record* settings, std::string_view name) {
  if (Thunk* t = settings->own(name)) return t;
  const Record* call = settings->outer;
  while (call && !call->site) call = call->outer;
  return call ? call->own(name) : nullptr;
}

std::vector<double> Evaluator::flags_value(const Value& v, const std::string& what, const Expr& e,
                                           const Record* scope) {
  std::vector<double> flags;
  for (const Value& f : elements(v, &e, scope)) flags.push_back(boolean(f, what, e, scope) ? 1 : 0);
  return flags;
}

NodeRef Evaluator::as_node(const Value& v, const std::string& what, const Expr& e, const Record* scope,
                           const Path* path) {
  if (auto* node = std::get_if<NodeRef>(&v)) return *node;
  if (auto* n = std::get_if<double>(&v)) return nodes_.constant(*n, path->str(), place(e, scope));
  std::string fix;
  if (std::holds_alternative<Function*>(v)) fix = "apply the function or layer to its input: f (x)";
  if (std::holds_alternative<Record*>(v)) fix = "pick the member that holds the node: record.z";
  if (std::holds_alternative<Array*>(v)) fix = "pick one element: a[0]";
  fail(e, scope, fmt::format("{} must be a node or a number, not {}", what, describe(v)), fix);
}

Value Evaluator::construct(const Expr& e, Record* scope, const Path* path) {
  static const std::vector<std::string> known = {"ComputationNetwork", "ComputationNode"};
  if (std::find(known.begin(), known.end(), e.name) == known.end())
    fail(e, scope, fmt::format("this version has no type '{}'", e.name),
         did_you_mean(e.name, known, "there are ComputationNetwork and ComputationNode"));
  Record* record = make_record(*e.args[0], scope, path);
  record->type = e.name;
  if (e.name == "ComputationNode") return make_node(e, record, path);
  return record;
}

NodeRef Evaluator::make_node(const Expr& e, Record* settings, const Path* path) {
  Thunk* named = find_setting(settings, "operation");
  if (!named && !e.where.text->library)
    fail(e, settings, "a ComputationNode needs its 'operation'", "operation = 'Times', for example");
  graph::Node node;
  node.operation = named ? text(force(named, &e, settings), "'operation'", e, settings)  //
                         : enclosing_call(settings)->function;
  if (!graph::find_operation(node.operation))
    fail(e, settings, fmt::format("this version has no operation '{}'", node.operation),
         did_you_mean(node.operation, graph::operation_names(), "docs/brainscript/operations.md lists the operations"));
  const bool delay = graph::is_delay(node.operation);
  if (!delay) node.inputs = input_nodes(node.operation, e, settings, path);
  node.name = path->str();
  node.where = place(e, settings);
  if (node.operation == "LearnableParameter")
    set_parameter_attributes(*this, node, e, settings);
  else
    set_attributes(node, e, settings);
  const std::string operation = node.operation;
  const NodeRef made = nodes_.add(std::move(node));
  if (delay) delays_.push_back({made.index, &e, settings, path});
  if (Thunk* t = find_setting(settings, "tag")) add_tag(made, operation, t, e, settings);
  return made;
}

std::vector<std::size_t> Evaluator::input_nodes(const std::string& operation, const Expr& e, Record* settings,
                                                const Path* path) {
  const graph::OperationInfo* info = graph::find_operation(operation);
  std::vector<std::size_t> nodes;
  if (Thunk* t = find_setting(settings, "inputs"); t && operation != "LearnableParameter" && info->max_inputs != 0) {
    const Value inputs = force(t, &e, settings);
    std::vector<Thunk*> all = {t};
    if (auto* a = std::get_if<Array*>(&inputs)) all = (*a)->elements;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::string what = all.size() == 1 ? "the input" : fmt::format("input {}", i + 1);
      nodes.push_back(as_node(force(all[i], &e, settings), what, e, settings, operand_path(path, operation, i)).index);
    }
  }
  const auto n = static_cast<int>(nodes.size());
  if (n < info->min_inputs || (info->max_inputs >= 0 && n > info->max_inputs))
    fail(e, settings,
         fmt::format("{} takes {}{} inputs, not {}", operation, info->max_inputs < 0 ? "at least " : "",
                     info->min_inputs, n));
  return nodes;
}

void Evaluator::resolve_delays() {
  while (!delays_.empty()) {
    const Delay d = delays_.front();
    delays_.erase(delays_.begin());
    const std::string operation = nodes_.graph.nodes[d.node].operation;  // nodes move when more are made
    auto inputs = input_nodes(operation, *d.expr, d.settings, d.path);
    nodes_.graph.nodes[d.node].inputs = std::move(inputs);
  }
}

void Evaluator::set_attributes(graph::Node& node, const Expr& e, Record* settings) {
  const auto found = attributes.find(node.operation);
  if (found == attributes.end()) return;
  for (const auto& a : found->second) {
    Thunk* t = find_setting(settings, a.name);
    if (!t) continue;
    const Value v = force(t, &e, settings);
    const std::string what = fmt::format("'{}' of {} '{}'", a.name, node.operation, node.name);
    if (std::holds_alternative<None>(v)) continue;
    graph::Attribute& stored = node.attributes[a.name];
    if (a.kind == AttributeKind::integer) stored = static_cast<double>(integer(v, what, e, settings));
    if (a.kind == AttributeKind::number) stored = number(v, what, e, settings);
    if (a.kind == AttributeKind::flag) stored = boolean(v, what, e, settings);
    if (a.kind == AttributeKind::text) stored = text(v, what, e, settings);
    if (a.kind == AttributeKind::dims) stored = dims_value(*this, v, what, e, settings);
    if (a.kind == AttributeKind::flags) stored = flags_value(v, what, e, settings);
  }
}

void Evaluator::add_tag(NodeRef node, const std::string& operation, Thunk* t, const Expr& e, Record* settings) {
  const std::string tag = text(force(t, &e, settings), "'tag'", e, settings);
  if (tag.empty()) return;
  const NodeSet set = set_of_word(tag);
  if (!set)
    fail(e, settings, fmt::format("there is no tag '{}'", tag),
         did_you_mean(tag, set_words(), "tags are feature, label, criterion, evaluation, output"));
  (nodes_.tags.*set).push_back(node.index);
  if (operation == "InputValue" && t->is_default) nodes_.default_features.insert(node.index);
}

Value Evaluator::node_member(NodeRef ref, const Expr& e, Record* scope) {
  const graph::Node& node = nodes_.graph.nodes[ref.index];
  if (e.name == "name") return node.name;
  if (e.name == "operation") return node.operation;
  if (e.name == "inputs") {
    Array* a = heap_.array();
    for (auto i : node.inputs) a->elements.push_back(heap_.ready(NodeRef{i}));
    return a;
  }
  const auto from_numbers = [&](const auto& numbers) {
    Array* a = heap_.array();
    for (auto n : numbers) a->elements.push_back(heap_.ready(static_cast<double>(n)));
    return a;
  };
  if (e.name == "dim" || e.name == "dims") {
    // On a copy: inference for the query must not fix dims before the network is complete.
    graph::Graph copy = nodes_.graph;
    // A delay whose input comes later has the dims it was given.
    for (const auto& d : delays_) {
      copy.nodes[d.node].operation = "InputValue";
      if (d.node == ref.index && graph::declared_shape(copy.nodes[d.node]).elements() == 0)
        fail(e, scope, fmt::format("the dimensions of {} '{}' are not known yet", node.operation, node.name),
             "give the delay its dims: PastValue (dims, x)");
    }
    const Shape shape = graph::infer_graph(copy, graph::evaluation_order(copy, {ref.index}))[ref.index].shape;
    if (e.name == "dim") return static_cast<double>(shape.elements());
    return from_numbers(shape.dims);
  }
  const auto found = node.attributes.find(e.name);
  if (found != node.attributes.end()) {
    const auto& a = found->second;
    if (auto* b = std::get_if<bool>(&a)) return *b;
    if (auto* n = std::get_if<double>(&a)) return *n;
    if (auto* s = std::get_if<std::string>(&a)) return *s;
    return from_numbers(std::get<std::vector<double>>(a));
  }
  std::vector<std::string> known = {"name", "operation", "dim", "dims", "inputs"};
  for (const auto& [name, value] : node.attributes) known.push_back(name);
  fail(e, scope, fmt::format("{} '{}' has no member '{}'", node.operation, node.name, e.name),
       did_you_mean(e.name, known, fmt::format("it has: {}", fmt::join(known, ", "))));
}

}  // namespace tutti::brainscript
