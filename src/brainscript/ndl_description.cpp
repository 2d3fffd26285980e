// SPDX-License-Identifier: Apache-2.0
// The NDLNetworkBuilder block: the file, its macros, and the sections that make the network.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "brainscript/deep_stack.h"
#include "brainscript/ndl.h"

namespace tutti::brainscript::ndl {
namespace {

SourceText source_of(const config::Value& v, const std::string& name) {
  auto source = v.where.source;
  std::size_t base = v.where.offset;
  if (!source || base + v.text.size() > source->text.size()) {
    source = std::make_shared<Source>(Source{name, v.text, std::make_shared<SourcePos>(v.where)});
    base = 0;
  }
  return {v.text, source, base, false};
}

// The contents of the builder block. Keeps its scripts while the graph is built.
class Description {
 public:
  explicit Description(const config::Record& block) : block_(block) {}

  graph::Graph build(const BuildContext& context) {
    check_keys();
    if (const auto macros = block_.find("ndlMacros"))
      for (const config::Value& path : script_files(*macros)) load_all(file(path));
    Script* description = nullptr;
    if (const auto path = block_.find("networkDescription")) description = &file(*path);
    for (const auto& name : names("load", description)) loaded_.push_back(&section(name, "load", description));
    std::vector<const Script*> networks;
    for (const auto& name : names("run", description)) networks.push_back(&section(name, "run", description));
    if (networks.empty() && description) networks.push_back(description);
    if (networks.empty())
      throw ConfigError(block_.where(), "NDLNetworkBuilder names no network",
                        "give networkDescription = file, or run = the name of a section");
    std::vector<const Script*> macros = loaded_;
    if (description) macros.push_back(&only_macros(*description));
    macros.insert(macros.end(), networks.begin(), networks.end() - 1);
    say_unused(context.notices);
    return build_network(macros, *networks.back(), context, block_.integer("randomSeedOffset", 0));
  }

 private:
  // Keys that are neither settings nor sections: variables of the network, under any name.
  std::vector<std::string> variables() const {
    std::vector<std::string> all;
    for (const auto& key : block_.keys())
      if (!block_.is_block(key) &&
          std::none_of(known_.begin(), known_.end(), [&](const auto& k) { return lower(k) == lower(key); }))
        all.push_back(key);
    return all;
  }
  void check_keys() const {
    for (const auto& key : variables())
      if (const std::string near = nearest(key, known_); !near.empty())
        throw ConfigError(block_.value(key).where, fmt::format("NDLNetworkBuilder has no '{}'", key),
                          fmt::format("did you mean '{}'?", near));
  }
  void say_unused(config::Notices* notices) const {
    // Sections that stand in the config have their variables substituted already.
    const std::string config = block_.where().source ? lower(block_.where().source->text) : "";
    for (const auto& key : variables())
      if (notices && !used_.contains(lower(key)) && config.find('$' + lower(key) + '$') == std::string::npos)
        notices->lines.push_back(
            fmt::format("'{0}' in NDLNetworkBuilder has no effect because the network does not use ${0}$", key));
  }

  Script& keep(SourceText text) {
    texts_.push_back(std::make_unique<SourceText>(std::move(text)));
    scripts_.push_back(
        std::make_unique<Script>(parse(*texts_.back(), [this](const std::string& name) -> std::optional<std::string> {
          used_.insert(lower(name));
          const auto v = block_.find(name);
          return v ? std::optional(v->text) : std::nullopt;
        })));
    return *scripts_.back();
  }
  Script& file(const config::Value& path) { return keep(text_of_file(path, "network description")); }

  // A file of macros: those outside of sections and those of the sections that its load names, or of all.
  void load_all(const Script& s) {
    loaded_.push_back(&s);
    for (const auto& [name, inner] : s.sections) loaded_.push_back(&inner);
  }
  const Script& only_macros(const Script& s) {
    scripts_.push_back(std::make_unique<Script>());
    scripts_.back()->macros = s.macros;
    return *scripts_.back();
  }

  // load = a:b or run = a:b, in the block or else in the file.
  std::vector<std::string> names(const std::string& key, const Script* description) const {
    if (block_.has_own(key)) return block_.strings(key);
    if (!description) return {};
    std::vector<std::string> all;
    const auto add = [&](const Expression& e) { all.push_back(e.text); };
    for (const auto& s : description->statements) {
      if (lower(s.name) != key) continue;
      if (s.value.kind == Expression::Kind::list)
        for (const auto& a : s.value.arguments) add(a.value);
      else
        add(s.value);
    }
    return all;
  }

  const Script& section(const std::string& name, const std::string& key, Script* description) {
    if (description)
      if (const auto found = description->sections.find(lower(name)); found != description->sections.end())
        return found->second;
    const auto value = block_.find(name);
    if (!value)
      throw ConfigError(block_.has_own(key) ? block_.value(key).where : block_.where(),
                        fmt::format("there is no section '{}', which {} names", name, key),
                        fmt::format("write {} = [ ... ]", name));
    return keep(source_of(*value, name));
  }

  const std::vector<std::string> known_ = {"networkDescription", "ndlMacros", "load", "run", "randomSeedOffset"};
  const config::Record& block_;
  std::set<std::string> used_;  // variables, in lower case
  std::vector<std::unique_ptr<SourceText>> texts_;
  std::vector<std::unique_ptr<Script>> scripts_;
  std::vector<const Script*> loaded_;
};

}  // namespace

std::vector<config::Value> script_files(const config::Value& paths) {
  if (std::filesystem::exists(paths.text)) return {paths};
  std::vector<config::Value> all;
  std::istringstream in(paths.text);
  for (std::string one; std::getline(in, one, '+');) all.push_back({one, paths.where});
  return all;
}

SourceText text_of_file(const config::Value& path, const std::string& what) {
  std::ifstream in(path.text, std::ios::binary);
  std::ostringstream content;
  if (in) content << in.rdbuf();
  if (!in || !std::filesystem::is_regular_file(path.text))
    throw ConfigError(path.where, fmt::format("cannot read the {} '{}'", what, path.text),
                      "check the path; a relative one starts at the current directory");
  return {content.str(), std::make_shared<Source>(Source{path.text, content.str(), nullptr}), 0, false};
}

graph::Graph build(const config::Record& command, const BuildContext& context) {
  if (!command.is_block("NDLNetworkBuilder"))
    throw ConfigError(command.value("NDLNetworkBuilder").where, "NDLNetworkBuilder must be a block",
                      "write [ networkDescription = \"net.ndl\" ]");
  const config::Record block = command.block("NDLNetworkBuilder");
  graph::Graph graph;
  on_deep_stack([&] { graph = Description(block).build(context); });
  return graph;
}

}  // namespace tutti::brainscript::ndl
