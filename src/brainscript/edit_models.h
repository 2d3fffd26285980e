// SPDX-License-Identifier: Apache-2.0
// edit_models.h -- the models that an editing script works on: by name, one of them the default, and their nodes by
// patterns such as m1.L3.*.W; and the commands on them, one table row each. Names are case-insensitive.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "brainscript/edit_script.h"
#include "brainscript/ndl.h"

namespace tutti::brainscript::mel {

// An input that is not set.
constexpr std::size_t no_input = static_cast<std::size_t>(-1);

struct Model {
  Model(std::string n, graph::Graph graph, const BuildContext& context)
      : name(std::move(n)), network(std::move(graph), context) {}
  std::string name;
  ndl::GrowingNetwork network;
  graph::Graph& graph() { return network.graph; }
  // Removes the name and operation of the node; inputs that referred to it become open.
  void remove(std::size_t node);
  // The graph as it is saved. Throws ConfigError at `where` while an input is open.
  graph::Graph finished(const Span& where);
};

// Some nodes of a model. `head` and `tail` surround the * of a pattern.
struct Selection {
  Model* model = nullptr;
  std::vector<std::size_t> nodes;
  bool pattern = false;
  std::string head, tail;
};

// A node and the name of its copy.
struct Pair {
  std::size_t node = 0;
  std::string name;
};

class Models {
 public:
  // Macros are known in every model.
  explicit Models(const BuildContext& context) : context_(context) {}
  void add_macros(const ndl::ScriptPtr&);
  // The first model becomes the default. Replaces a model of that name; returns whether there was one.
  bool add(const std::string& name, graph::Graph);
  Model& model(const std::string& name, const Span& where);
  Model& default_model(const Span& where);
  void set_default(const std::string& name, const Span& where);
  void unload(const std::string& name, const Span& where);

  // All nodes that match a name or pattern; throws if there are none.
  Selection select(const Argument&);
  std::size_t one(const Argument&, const Model& model);  // exactly one, of that model
  // The names that `to` gives to the nodes of `from`: L1.* to L2.*, or one node to all that L* matches.
  std::vector<Pair> pairs(const Selection& from, const Argument& from_text, const Argument& to, Model*& to_model);

 private:
  Selection parse(const Argument&);
  std::vector<std::size_t> matches(Selection&);

  const BuildContext& context_;
  std::map<std::string, Model> models_;
  std::string default_;
  std::vector<ndl::ScriptPtr> macros_;
};

struct Editor {
  const EditFiles& files;
  const BuildContext& context;
  Models models;
  void notice(const Span& where, const std::string& text, const std::string& fix = {}) const;
};

using Arguments = std::vector<Argument>;
struct Command {
  std::vector<std::string> names;
  std::string usage;                 // its arguments
  std::size_t least = 0, most = 0;   // positional arguments
  std::vector<std::string> options;  // the first is the canonical spelling
  void (*run)(Editor&, const Statement&, const Arguments&);
};
const std::vector<Command>& commands();

// The row of the command; checks its arguments. Throws ConfigError.
const Command& find_command(const Statement&);
// The positional arguments, and an option or null.
Arguments positional(const Statement&);
const Argument* option(const Statement&, const std::string& name);

}  // namespace tutti::brainscript::mel
