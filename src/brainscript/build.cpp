// SPDX-License-Identifier: Apache-2.0
// Which builder a command block names, and what it is given.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>

#include "brainscript/keras.h"
#include "brainscript/ndl.h"
#include "brainscript/network.h"
#include "brainscript/simple_network.h"
#include "graph/shapes.h"
#include "tutti/builder.h"

namespace tutti {
namespace {

brainscript::Value number_or_text(const std::string& s) {
  double n = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), n);
  if (error == std::errc() && end == s.data() + s.size()) return n;
  return s;
}

brainscript::NetworkText network_text(const config::Record& command, const char* key) {
  const config::Value v = command.value(key);
  brainscript::NetworkText n;
  n.text = brainscript::ndl::text_of_value(v, key);
  const std::size_t first = v.text.find_first_not_of(" \t\r\n");
  const char opening = first == std::string::npos ? '\0' : v.text[first];
  if (opening != '{' && opening != '[' && opening != '(')
    throw ConfigError(v.where, fmt::format("{} must begin with '{{', '[' or '('", key),
                      "write { features = Input {784}; ... }");
  for (SourcePos at = v.where; at.source; at = at.source->origin ? *at.source->origin : SourcePos{})
    n.include_path.push_back(std::filesystem::path(at.source->name).parent_path());
  n.variables = {{"deviceId", number_or_text(command.string("deviceId", "auto"))},
                 {"traceLevel", number_or_text(command.string("traceLevel", "0"))},
                 {"precision", command.string("precision", "float")}};
  return n;
}

template <class Options, graph::Graph (*build)(const Options&, const config::Record& command, const BuildContext&)>
graph::Graph from_options(const config::Record& command, const BuildContext& context, const char* key) {
  Problems mistakes;
  const auto options = config::read<Options>(command.block(key), key, mistakes, *context.notices);
  mistakes.throw_if_any();
  return build(options, command, context);
}

graph::Graph from_text(const config::Record& command, const BuildContext& context, const char* key) {
  return brainscript::build_network(network_text(command, key), context);
}

graph::Graph from_script(const config::Record& command, const BuildContext& context, const char* key) {
  return brainscript::ndl::build(command.block(key), context);
}

graph::Graph from_function(const config::Record& command, const BuildContext&, const char* key) {
  throw ConfigError(command.value(key).where, fmt::format("{} is not part of this version", key),
                    "describe the network by BrainScriptNetworkBuilder or SimpleNetworkBuilder");
}

struct BuilderKey {
  const char* key;
  graph::Graph (*build)(const config::Record& command, const BuildContext&, const char* key);
  const char* example = nullptr;  // of those that must be blocks
};
// The first one present wins.
constexpr std::array<BuilderKey, 6> builders = {
    {{"createNetwork", from_function},
     {"SimpleNetworkBuilder", from_options<brainscript::SimpleNetworkOptions, brainscript::build_simple_network>,
      "write [ layerSizes = ... ]"},
     {"NDLNetworkBuilder", from_script, "write [ networkDescription = \"net.ndl\" ]"},
     {"BrainScriptNetworkBuilder", from_text},
     {"ExperimentalNetworkBuilder", from_text},
     {"KerasNetworkBuilder", from_options<brainscript::keras::Options, brainscript::keras::build>,
      "write [ file = \"model.json\" ]"}}};

const BuilderKey* find_builder(const config::Record& command) {
  const auto found = std::ranges::find_if(builders, [&](const auto& b) { return command.has(b.key); });
  return found == builders.end() ? nullptr : &*found;
}

}  // namespace

bool has_network_builder(const config::Record& command) { return find_builder(command) != nullptr; }

bool has_own_network_builder(const config::Record& command) {
  return std::any_of(builders.begin(), builders.end(), [&](const auto& b) { return command.has_own(b.key); });
}

graph::Graph build_network(const config::Record& command, const BuildContext& given) {
  Problems own_problems;
  config::Notices own_notices;
  BuildContext context = given;
  if (!context.problems) context.problems = &own_problems;
  if (!context.notices) context.notices = &own_notices;
  graph::Graph graph;
  try {
    const BuilderKey* b = find_builder(command);
    if (!b)
      throw ConfigError(command.where(), fmt::format("{} names no network", command.path()),
                        "add a BrainScriptNetworkBuilder = { ... } or SimpleNetworkBuilder = [ ... ] block");
    if (b->example && !command.is_block(b->key))
      throw ConfigError(command.value(b->key).where, fmt::format("{} must be a block", b->key), b->example);
    graph = b->build(command, context, b->key);
    for (const auto& warnings : {graph::reconcile_axes(graph), graph::find_error_rates_of_zero(graph)})
      for (const Diagnostic& warning : warnings) context.notices->lines.push_back(render(warning, "warning"));
  } catch (const ConfigError& e) {
    context.problems->add(e);
  }
  own_problems.throw_if_any();
  return graph;
}

}  // namespace tutti
