// SPDX-License-Identifier: Apache-2.0
// Which builder a command block names, and what it is given (semantics 2.1).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>

#include "brainscript/keras.h"
#include "brainscript/ndl.h"
#include "brainscript/network.h"
#include "brainscript/simple_network.h"
#include "graph/reconcile_axes.h"
#include "tutti/builder.h"

namespace tutti {
namespace {

enum class BuilderKind { create_network, simple, ndl, brain_script, keras };
struct BuilderKey {
  const char* key;
  BuilderKind kind;
};
// The first one present wins.
constexpr std::array<BuilderKey, 6> builders = {{{"createNetwork", BuilderKind::create_network},
                                                 {"SimpleNetworkBuilder", BuilderKind::simple},
                                                 {"NDLNetworkBuilder", BuilderKind::ndl},
                                                 {"BrainScriptNetworkBuilder", BuilderKind::brain_script},
                                                 {"ExperimentalNetworkBuilder", BuilderKind::brain_script},
                                                 {"KerasNetworkBuilder", BuilderKind::keras}}};

const BuilderKey* find_builder(const config::Record& command) {
  for (const auto& b : builders)
    if (command.has(b.key)) return &b;
  return nullptr;
}

brainscript::Value number_or_text(const std::string& s) {
  double n = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), n);
  if (error == std::errc() && end == s.data() + s.size()) return n;
  return s;
}

brainscript::NetworkText network_text(const config::Record& command, const char* key) {
  const config::Value v = command.value(key);
  brainscript::NetworkText n;
  auto source = v.where.source;
  std::size_t base = v.where.offset;
  // A value that was built by substitution is shown as it is, with its origin.
  if (!source || base + v.text.size() > source->text.size()) {
    source = std::make_shared<Source>(Source{key, v.text, std::make_shared<SourcePos>(v.where)});
    base = 0;
  }
  n.text = {v.text, source, base, false};
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

graph::Graph build(const config::Record& command, const BuildContext& context, const BuilderKey& b) {
  switch (b.kind) {
    case BuilderKind::keras:
      return brainscript::keras::build(command, context);
    case BuilderKind::ndl:
      return brainscript::ndl::build(command, context);
    case BuilderKind::create_network:
      throw ConfigError(command.value(b.key).where, fmt::format("{} is not part of this version", b.key),
                        "describe the network by BrainScriptNetworkBuilder or SimpleNetworkBuilder");
    case BuilderKind::simple: {
      if (!command.is_block(b.key))
        throw ConfigError(command.value(b.key).where, "SimpleNetworkBuilder must be a block",
                          "write [ layerSizes = ... ]");
      const config::Record block = command.block(b.key);
      Problems mistakes;
      const auto options =
          config::read<brainscript::SimpleNetworkOptions>(block, "SimpleNetworkBuilder", mistakes, *context.notices);
      mistakes.throw_if_any();
      return brainscript::build_simple_network(options, block.where(), context);
    }
    case BuilderKind::brain_script:
      return brainscript::build_network(network_text(command, b.key), context);
  }
  return {};
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
    graph = build(command, context, *b);
    for (const Diagnostic& warning : graph::reconcile_axes(graph))
      context.notices->lines.push_back(render(warning, "warning"));
  } catch (const ConfigError& e) {
    context.problems->add(e);
  }
  own_problems.throw_if_any();
  return graph;
}

}  // namespace tutti
