// SPDX-License-Identifier: Apache-2.0
#include "train/model_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "train/graph_text.h"
#include "train/rank_state.h"
#include "tutti/error.h"

namespace tutti {

namespace {

constexpr const char* prefix = "value/";
constexpr const char* edited = "edited";

Shape shape_of(const Entry& e) { return {{e.dims.begin(), e.dims.end()}}; }

void check_surplus(const ContainerReader& r, const ModelView& m) {
  std::set<std::string> known;
  for (const ModelValue& v : m.values) known.insert(prefix + v.name);
  for (const auto& [name, entry] : r.entries())
    if (name.starts_with(prefix) && !known.contains(name))
      throw Error(fmt::format("'{}' holds '{}', which this network does not have: the network has changed since",
                              r.path(), name.substr(std::string_view(prefix).size())));
}

}  // namespace

std::size_t ModelView::bytes() const {
  std::size_t sum = 0;
  for (const ModelValue& v : values) sum += v.values.size_bytes();
  return sum;
}

void write_model(ContainerWriter& w, const ModelView& m) {
  w.add("graph", to_text(*m.graph));
  for (const ModelValue& v : m.values) w.add(prefix + v.name, v.shape, v.values);
}

void read_model_values(const ContainerReader& r, ModelView& m) {
  check_surplus(r, m);
  for (ModelValue& v : m.values) {
    if (!r.has(prefix + v.name))
      throw Error(fmt::format("'{}' has no values for '{}': the network has changed since", r.path(), v.name));
    const Shape stored = shape_of(r.find(prefix + v.name, EntryType::floats));
    if (stored != v.shape)
      throw Error(fmt::format("'{}' holds '{}' as {}, the network has {}: the network has changed since", r.path(),
                              v.name, to_string(stored), to_string(v.shape)));
    r.floats(prefix + v.name, v.values);
  }
}

void save_model(const std::string& path, const ModelView& m) {
  ContainerWriter w(path, "model");
  write_model(w, m);
  w.finish();
  w.commit();
}

void save_edited_model(const std::string& path, const ModelView& m) {
  ContainerWriter w(path, "model");
  w.add(edited, true);
  write_model(w, m);
  w.finish();
  w.commit();
}

bool is_edited_model(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) && ContainerReader(path, "model").has(edited);
}

bool is_edited_model(const std::string& path, Communicator& comm) {
  std::uint8_t found = 0;
  on_rank_0(comm, [&] { found = is_edited_model(path); });
  comm.broadcast(0, std::as_writable_bytes(std::span(&found, 1)));
  return found != 0;
}

graph::Graph load_graph(const std::string& path) {
  return parse_graph(ContainerReader(path, "model").text("graph"), path);
}

void load_values(const std::string& path, ModelView& m) { read_model_values(ContainerReader(path, "model"), m); }

graph::Graph load_trained(const std::string& path) {
  const ContainerReader r(path, "model");
  graph::Graph graph = parse_graph(r.text("graph"), path);
  for (graph::Node& node : graph.nodes)
    for (const char* suffix : {"", ".samplesSeen"}) {  // the latter: what batch normalisation remembers
      const std::string name = prefix + node.name + suffix;
      if (!r.has(name)) continue;
      auto values = std::make_shared<std::vector<float>>(shape_of(r.find(name, EntryType::floats)).elements());
      r.floats(name, *values);
      node.start = std::move(values);
    }
  return graph;
}

graph::Graph load_trained(const std::string& path, Communicator& comm) {
  graph::Graph graph;
  std::string text;
  on_rank_0(comm, [&] {
    graph = load_trained(path);
    text = to_text(graph);
  });
  broadcast_text(comm, text);
  if (comm.rank() != 0) graph = parse_graph(text, path);
  for (graph::Node& node : graph.nodes) {
    std::uint64_t size = node.start ? node.start->size() : 0;
    comm.broadcast(0, std::as_writable_bytes(std::span(&size, 1)));
    if (size == 0) continue;
    auto values = std::make_shared<std::vector<float>>(size);
    if (comm.rank() == 0) *values = *node.start;
    comm.broadcast(0, std::as_writable_bytes(std::span(*values)));
    node.start = std::move(values);
  }
  return graph;
}

graph::Graph load_graph(const std::string& path, Communicator& comm, std::string_view kind) {
  std::string text;
  on_rank_0(comm, [&] { text = ContainerReader(path, kind).text("graph"); });
  broadcast_text(comm, text);
  return parse_graph(text, path);
}

void load_values(const std::string& path, ModelView& m, Communicator& comm) {
  on_rank_0(comm, [&] { load_values(path, m); });
  broadcast_values(m, comm);
}

}  // namespace tutti
