// SPDX-License-Identifier: Apache-2.0
#include "train/model_file.h"

#include <fmt/format.h>
#include <fmt/printf.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <ostream>
#include <set>

#include "base/pattern.h"
#include "cntk/model.h"
#include "graph/initialize.h"
#include "graph/shapes.h"
#include "train/file.h"
#include "train/rank_state.h"
#include "tutti/error.h"
#include "tutti/log.h"

namespace tutti {

namespace {

constexpr const char* prefix = "value/";
constexpr const char* unused = "unused/";  // values of nodes that no criterion, evaluation or output needs
constexpr const char* edited = "edited";   // the network replaces the description

Shape shape_of(const Entry& e) { return {{e.dims.begin(), e.dims.end()}}; }

void check_surplus(const ContainerReader& r, const ModelView& m) {
  std::set<std::string> known;
  for (const ModelValue& v : m.values) known.insert(prefix + v.name);
  for (const auto& [entry_name, entry] : r.entries()) {
    if (!entry_name.starts_with(prefix) || known.contains(entry_name)) continue;
    const std::string name = entry_name.substr(std::string_view(prefix).size());
    if (std::ranges::count(m.graph->nodes, name, &graph::Node::name) > 0)
      throw Error(
          fmt::format("'{}' holds '{}', on which no criterion, evaluation or output depends any more", r.path(), name));
    throw Error(fmt::format("'{}' holds '{}', which this network does not have: the network has changed since",
                            r.path(), name));
  }
}

// The entry with the values.
std::string entry_of(const ContainerReader& r, const std::string& name, bool exact) {
  if (r.has(prefix + name)) return prefix + name;
  if (!r.has(unused + name))
    throw Error(fmt::format("'{}' has no values for '{}': the network has changed since", r.path(), name));
  if (exact)
    throw Error(
        fmt::format("'{}' holds '{}' as a node on which no criterion, evaluation or output depends", r.path(), name));
  return unused + name;
}

constexpr int format = 1;

std::string number_text(double v) {
  if (std::isnan(v)) return ".nan";
  if (std::isinf(v)) return v < 0 ? "-.inf" : ".inf";
  return fmt::format("{}", v);
}

double parse_number(const std::string& text) {
  if (text == ".nan") return std::nan("");
  if (text == ".inf") return INFINITY;
  if (text == "-.inf") return -INFINITY;
  double v = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error != std::errc{} || end != text.data() + text.size())
    throw YAML::Exception({}, "'" + text + "' is no number");
  return v;
}

struct EmitAttribute {
  YAML::Emitter& out;
  void operator()(bool v) const { out << (v ? "true" : "false"); }
  void operator()(double v) const { out << number_text(v); }
  void operator()(const std::string& v) const { out << YAML::DoubleQuoted << v; }
  void operator()(const std::vector<double>& v) const {
    out << YAML::Flow << YAML::BeginSeq;
    for (double x : v) out << number_text(x);
    out << YAML::EndSeq;
  }
};

graph::Attribute parse_attribute(const YAML::Node& n) {
  if (n.IsSequence()) {
    std::vector<double> v;
    for (const auto& x : n) v.push_back(parse_number(x.Scalar()));
    return v;
  }
  if (n.Tag() == "!") return n.Scalar();  // was quoted
  if (n.Scalar() == "true") return true;
  if (n.Scalar() == "false") return false;
  return parse_number(n.Scalar());
}

using IndexList = std::vector<std::size_t> graph::Graph::*;
constexpr std::pair<const char*, IndexList> sets[] = {{"features", &graph::Graph::features},
                                                      {"labels", &graph::Graph::labels},
                                                      {"criteria", &graph::Graph::criteria},
                                                      {"evaluations", &graph::Graph::evaluations},
                                                      {"outputs", &graph::Graph::outputs}};

void emit_indices(YAML::Emitter& out, const std::vector<std::size_t>& v) {
  out << YAML::Flow << YAML::BeginSeq;
  for (std::size_t i : v) out << i;
  out << YAML::EndSeq;
}

std::vector<std::size_t> parse_indices(const YAML::Node& list, std::size_t nodes) {
  auto v = list.as<std::vector<std::size_t>>();
  for (std::size_t i : v)
    if (i >= nodes) throw YAML::Exception(list.Mark(), fmt::format("node {} of {}", i, nodes));
  return v;
}

graph::Graph parse(const std::string& text) {
  const YAML::Node root = YAML::Load(text);
  if (root["format"].as<int>() != format) throw YAML::Exception({}, "the network description has another format");
  graph::Graph g;
  const YAML::Node nodes = root["nodes"];
  for (const auto& n : nodes) {
    graph::Node node;
    node.name = n["name"].Scalar();
    node.operation = n["operation"].Scalar();
    node.inputs = parse_indices(n["inputs"], nodes.size());
    for (const auto& a : n["attributes"]) node.attributes[a.first.Scalar()] = parse_attribute(a.second);
    g.nodes.push_back(std::move(node));
  }
  for (const auto& [name, list] : sets) g.*list = parse_indices(root[name], g.nodes.size());
  return g;
}

// A model of CNTK. What differs from the file is said where its values are used.
graph::Graph read_cntk_graph(const std::string& path) {
  cntk::Model model = cntk::read_model(path);
  for (const std::string& note : model.notes) log::line(fmt::format("Model of CNTK '{}': {}.", path, note));
  return std::move(model.graph);
}

// Of the nodes in `single` only values with one element.
void read_starts(const ContainerReader& r, graph::Graph& graph, const std::string& kind,
                 const std::set<std::size_t>& single = {}) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    graph::Node& node = graph.nodes[i];
    const std::string name = kind + node.name;
    if (!r.has(name)) continue;
    const std::size_t size = shape_of(r.find(name, EntryType::floats)).elements();
    if (size > 1 && single.contains(i)) continue;
    auto values = std::make_shared<std::vector<float>>(size);
    r.floats(name, *values);
    node.start = std::move(values);
  }
}

void copy_values(const graph::Graph& from, const std::string& path, ModelView& m) {
  std::map<std::string_view, const graph::Node*> nodes;
  for (const graph::Node& n : from.nodes) nodes[n.name] = &n;
  for (ModelValue& v : m.values) {
    const auto found = nodes.find(v.name);
    if (found == nodes.end() || !found->second->start)
      throw Error(fmt::format("'{}' has no values for '{}': the network has changed since", path, v.name));
    const std::vector<float>& stored = *found->second->start;
    if (stored.size() != v.values.size())
      throw Error(fmt::format("'{}' has {} values for '{}', the network has {}: the network has changed since", path,
                              stored.size(), v.name, to_string(v.shape)));
    std::ranges::copy(stored, v.values.begin());
  }
}

graph::Graph read_trained(const std::string& path, std::string_view kind) {
  if (cntk::is_model(path)) return read_cntk_graph(path);
  const ContainerReader r(path, kind);
  graph::Graph graph = parse_graph(r.text("graph"), path);
  read_starts(r, graph, prefix);
  read_starts(r, graph, unused);
  return graph;
}

// Without the values of its criteria, evaluations and outputs, which load_values() reads, except single ones: how a
// network is built depends on constants such as the 1 of a GRU (graph/recognize_gru.cpp), and the file may hold another
// number than the description.
graph::Graph read_description(const std::string& path, std::string_view kind) {
  if (!cntk::is_model(path)) {
    const ContainerReader r(path, kind);
    graph::Graph graph = parse_graph(r.text("graph"), path);
    const auto order = graph::evaluation_order(graph, graph::roots_of(graph, {}));
    read_starts(r, graph, prefix, {order.begin(), order.end()});
    read_starts(r, graph, unused);
    // The model has the values; the file that they began from may be gone.
    for (graph::Node& node : graph.nodes)
      if ((node.start || r.has(prefix + node.name)) && node.attributes.erase("initFromFilePath") > 0)
        node.attributes["init"] = std::string("fixedValue");
    return graph;
  }
  graph::Graph graph = cntk::read_model(path).graph;
  for (const std::size_t n : graph::evaluation_order(graph, graph::roots_of(graph, {})))
    if (auto& start = graph.nodes[n].start; start && start->size() > 1) start = nullptr;
  return graph;
}

// Rank 0 sends its graph to all.
void share_graph(graph::Graph& graph, Communicator& comm, const std::string& path) {
  std::string text = to_text(graph);
  broadcast_text(comm, text);
  if (comm.rank() != 0) graph = parse_graph(text, path);
  for (graph::Node& node : graph.nodes) {
    std::uint64_t size = node.start ? node.start->size() : 0;
    comm.broadcast(0, writable_bytes(size));
    if (size == 0) continue;
    auto values = std::make_shared<std::vector<float>>(size);
    if (comm.rank() == 0) *values = *node.start;
    comm.broadcast(0, std::as_writable_bytes(std::span(*values)));
    node.start = std::move(values);
  }
}

// The values of a node that the network does not compute: none if there are no dimensions yet.
std::vector<float> unused_values(const graph::Node& node) {
  if (node.start) return *node.start;
  if (node.operation != "LearnableParameter") return {};
  const Shape shape = graph::declared_shape(node);
  std::vector<float> values(graph::has_unknown(shape) ? 0 : shape.elements());
  try {
    if (!values.empty()) graph::initialize(node, shape, values);
  } catch (const ConfigError&) {
    return {};  // nobody uses them, so a file that is missing harms nobody
  }
  return values;
}

const ModelValue* find_value(const ModelView& m, const std::string& name) {
  const auto at = std::ranges::lower_bound(m.values, name, {}, &ModelValue::name);
  return at != m.values.end() && at->name == name ? &*at : nullptr;
}

std::vector<const graph::Node*> chosen(const graph::Graph& g, const DumpOptions& o) {
  std::vector<const graph::Node*> nodes;
  std::vector<std::string> names;
  try {
    const Pattern pattern(o.node_name_regex);
    for (const graph::Node& n : g.nodes) {
      names.push_back(n.name);
      const bool listed = std::find(o.names.begin(), o.names.end(), n.name) != o.names.end();
      const bool wanted = !o.names.empty()            ? listed
                          : o.node_name_regex.empty() ? o.node_name == "__AllNodes__" || o.node_name == n.name
                                                      : pattern.match(n.name).has_value();
      if (wanted) nodes.push_back(&n);
    }
  } catch (const PatternError& e) {
    throw Error(fmt::format("nodeNameRegex '{}' is not a regular expression: {}", o.node_name_regex, e.what()));
  }
  if (nodes.empty() && !o.node_name_regex.empty())
    throw Error(fmt::format("no node matches nodeNameRegex '{}'", o.node_name_regex));
  if (nodes.empty() && o.node_name != "__AllNodes__") {
    const std::string near = nearest(o.node_name, names);
    throw Error(fmt::format("the model has no node '{}'{}", o.node_name,
                            near.empty() ? std::string() : fmt::format("; did you mean '{}'?", near)));
  }
  std::sort(nodes.begin(), nodes.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  return nodes;
}

std::string dims_text(const graph::Node& n) {
  std::vector<std::size_t> dims;
  for (double d : graph::numbers(n, "dims")) dims.push_back(static_cast<std::size_t>(d));
  return fmt::format("{}", fmt::join(dims, " x "));
}

void print_head(const ModelView& m, const graph::Node& n, const ModelValue* parameter, std::ostream& out) {
  const bool sparse = n.operation == "InputValue" && graph::flag(n, "sparse", false);
  out << n.name << '=' << (sparse ? "SparseInputValue" : n.operation);
  if (n.operation == "LearnableParameter" && parameter) {
    const std::size_t rows = parameter->shape[0], columns = rows ? parameter->values.size() / rows : 0;
    const double rate = graph::number(n, "learningRateMultiplier", 1);
    out << fmt::sprintf(" [%lu,%lu]   learningRateMultiplier=%f  NeedsGradient=%s", rows, columns, rate,
                        rate > 0 ? "true" : "false");
  } else if (n.inputs.empty()) {
    out << " [ " << dims_text(n) << " ]";
  } else {
    out << " (";
    for (std::size_t i = 0; i < n.inputs.size(); ++i) out << (i ? " , " : " ") << m.graph->nodes[n.inputs[i]].name;
    out << " )";
  }
  out << '\n';
}

void print_values(const ModelValue& v, std::ostream& out) {
  const std::size_t rows = v.shape[0];
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t i = r; i < v.values.size(); i += rows) out << fmt::format(" {:.9g}", v.values[i]);
    out << '\n';
  }
}

// Without a communicator, this rank reads.
void on_rank_0(Communicator* comm, const std::function<void()>& work) { comm ? on_rank_0(*comm, work) : work(); }

}  // namespace

std::string to_text(const graph::Graph& g) {
  YAML::Emitter out;
  out << YAML::BeginMap << YAML::Key << "format" << YAML::Value << format;
  out << YAML::Key << "nodes" << YAML::Value << YAML::BeginSeq;
  for (const graph::Node& n : g.nodes) {
    out << YAML::BeginMap;
    out << YAML::Key << "name" << YAML::Value << YAML::DoubleQuoted << n.name;
    out << YAML::Key << "operation" << YAML::Value << YAML::DoubleQuoted << n.operation;
    out << YAML::Key << "inputs" << YAML::Value;
    emit_indices(out, n.inputs);
    out << YAML::Key << "attributes" << YAML::Value << YAML::Flow << YAML::BeginMap;
    for (const auto& [key, value] : n.attributes) {
      out << YAML::Key << YAML::DoubleQuoted << key << YAML::Value;
      std::visit(EmitAttribute{out}, value);
    }
    out << YAML::EndMap << YAML::EndMap;
  }
  out << YAML::EndSeq;
  for (const auto& [name, list] : sets) {
    out << YAML::Key << name << YAML::Value;
    emit_indices(out, g.*list);
  }
  out << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

graph::Graph parse_graph(const std::string& text, const std::string& from) {
  try {
    return parse(text);
  } catch (const YAML::Exception& e) {
    throw Error(fmt::format("reading the network in '{}': {}", from, e.what()));
  }
}

ModelView view_model(Network& network) {
  ModelView m;
  m.graph = &network.graph();
  Parameters& p = network.parameters();
  for (const Slice& s : p.slices) m.values.push_back({s.name, s.shape, p.weights.span().subspan(s.offset, s.size())});
  for (const Network::State& s : network.state()) m.values.push_back({s.name, s.shape, s.values});
  std::sort(m.values.begin(), m.values.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return m;
}

std::size_t ModelView::bytes() const {
  std::size_t sum = 0;
  for (const ModelValue& v : values) sum += v.values.size_bytes();
  return sum;
}

void write_model(ContainerWriter& w, const ModelView& m, bool replaces_description) {
  if (replaces_description) w.add(edited, true);
  w.add("graph", to_text(*m.graph));
  for (const ModelValue& v : m.values) w.add(prefix + v.name, v.shape, v.values);
  for (const graph::Node& node : m.graph->nodes) {
    if (find_value(m, node.name)) continue;
    const std::vector<float> values = unused_values(node);
    if (!values.empty()) w.add(unused + node.name, {{values.size()}}, values);
  }
}

void read_model_values(const ContainerReader& r, ModelView& m, bool exact) {
  if (exact) check_surplus(r, m);
  for (ModelValue& v : m.values) {
    const std::string entry = entry_of(r, v.name, exact);
    const Shape stored = shape_of(r.find(entry, EntryType::floats));
    const bool fits = entry.starts_with(unused) ? stored.elements() == v.values.size() : stored == v.shape;
    if (!fits)
      throw Error(fmt::format("'{}' holds '{}' as {}, the network has {}: the network has changed since", r.path(),
                              v.name, to_string(stored), to_string(v.shape)));
    r.floats(entry, v.values);
  }
}

void save_model(const std::string& path, const ModelView& m, bool replaces_description) {
  ContainerWriter w(path, "model");
  write_model(w, m, replaces_description);
  w.finish();
  w.commit();
}

bool replaces_description(const std::string& path, Communicator* comm, std::string_view kind) {
  std::uint8_t found = 0;
  on_rank_0(comm,
            [&] { found = file_exists(path) && (cntk::is_model(path) || ContainerReader(path, kind).has(edited)); });
  if (comm) comm->broadcast(0, writable_bytes(found));
  return found != 0;
}

graph::Graph load_graph(const std::string& path, Communicator* comm, std::string_view kind) {
  graph::Graph graph;
  on_rank_0(comm, [&] { graph = read_description(path, kind); });
  if (comm) share_graph(graph, *comm, path);
  return graph;
}

void load_values(const std::string& path, ModelView& m, Communicator* comm, std::string_view kind, bool exact) {
  on_rank_0(comm, [&] {
    if (cntk::is_model(path))
      copy_values(read_cntk_graph(path), path, m);
    else
      read_model_values(ContainerReader(path, kind), m, exact);
  });
  if (!comm) return;
  for (ModelValue& v : m.values)
    if (!v.values.empty()) comm->broadcast(0, std::as_writable_bytes(v.values));
}

graph::Graph load_trained(const std::string& path, Communicator* comm, std::string_view kind) {
  graph::Graph graph;
  on_rank_0(comm, [&] { graph = read_trained(path, kind); });
  if (comm) share_graph(graph, *comm, path);
  return graph;
}

void check_constants(const std::vector<Network::State>& state, const std::string& path) {
  for (const Network::State& s : state)
    if (s.is_one && s.values.front() != 1)
      throw Error(
          fmt::format("the constant '{}' is {:g} in '{}' and 1 in this network", s.name, s.values.front(), path));
}

void dump_nodes(const ModelView& m, const DumpOptions& o, std::ostream& out) {
  for (const graph::Node* n : chosen(*m.graph, o)) {
    const ModelValue* value = find_value(m, n->name);
    std::vector<float> values;
    std::optional<ModelValue> of_unused;
    if (!value && n->operation == "LearnableParameter" && !(values = unused_values(*n)).empty())
      value = &of_unused.emplace(ModelValue{n->name, graph::declared_shape(*n), values});
    if (o.print_metadata) print_head(m, *n, value, out);
    if (value && o.print_values) {
      print_values(*value, out);
      if (o.print_metadata) out << ' ' << std::string(68, '#') << '\n';
    }
  }
}

}  // namespace tutti
