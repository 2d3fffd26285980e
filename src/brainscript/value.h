// SPDX-License-Identifier: Apache-2.0
// value.h -- what expressions evaluate to. Records, functions and unevaluated expressions refer to each other in
// circles, so all of them live in one Heap and are freed together with it.
#pragma once

#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "brainscript/syntax.h"

namespace tutti::brainscript {

struct Array;
struct Record;
struct Function;
struct LoadedNetwork;
// A loaded model, or those of its nodes whose names begin with `prefix`: what net.a, net.a.b[0] stand for.
struct NetworkView {
  std::shared_ptr<LoadedNetwork> network;
  std::string prefix;
};
struct None {
  bool operator==(const None&) const = default;
};
struct NodeRef {
  std::size_t index = 0;  // into graph::Graph::nodes
  bool operator==(const NodeRef&) const = default;
};
using Value = std::variant<None, double, bool, std::string, Array*, Record*, Function*, NodeRef, NetworkView*>;

std::string kind_of(const Value&);  // "a number", "a string", ...

// Where in the network an expression stands; names nodes. A chain, because most paths are never written out.
struct Path {
  const Path* parent = nullptr;
  std::string part;  // "x", "[2]", ".PlusArgs[0]"
  std::string str() const;
};

// An expression that is evaluated when first asked for, once.
struct Thunk {
  enum class State { fresh, running, done, failed };
  State state = State::fresh;
  bool is_default = false;  // an argument that the caller left out
  Value value;
  const Expr* expr = nullptr;
  Record* scope = nullptr;
  const Path* path = nullptr;
  std::string name;  // for messages
  std::exception_ptr failure;
};

struct Array {
  std::int64_t first = 0;  // index of the first element
  std::vector<Thunk*> elements;
};

// A record, or the arguments of a call (then `site` is set).
struct Record {
  Record* outer = nullptr;
  std::vector<std::pair<std::string, Thunk*>> members;
  std::unordered_map<std::string_view, Thunk*> index;  // filled for large records only
  std::string type;                                    // "ComputationNetwork" of new ComputationNetwork { ... }
  const Expr* written = nullptr;                       // the expression of a record
  const Expr* site = nullptr;                          // the call
  Record* site_scope = nullptr;
  std::string function;  // the called function's name

  Thunk* own(std::string_view name) const;
  void add(std::string name, Thunk* value) { members.emplace_back(std::move(name), value); }
  void build_index();
};

class Evaluator;
struct Call;

// A function written in C++.
struct Native {
  std::string name;
  struct Param {
    std::string name;
    std::optional<Value> otherwise;
  };
  std::vector<Param> params;
  std::function<Value(const Call&)> run;
  std::string_view sentence = {};  // for help=NAME
};
const std::vector<Native>& natives();

struct Function {
  const Expr* lambda = nullptr;  // with scope
  Record* scope = nullptr;
  const Native* native = nullptr;
  std::string name;
};

class Heap {
 public:
  Thunk* thunk(Thunk t = {}) { return &thunks_.emplace_back(std::move(t)); }
  Thunk* ready(Value v, std::string name = {});
  Thunk* lazy(const Expr* expr, Record* scope, const Path* path, std::string name = {});
  Array* array() { return &arrays_.emplace_back(); }
  Record* record() { return &records_.emplace_back(); }
  Native* native(Native n) { return &natives_.emplace_back(std::move(n)); }
  NetworkView* view(NetworkView v) { return &views_.emplace_back(std::move(v)); }
  Function* function(Function f) { return &functions_.emplace_back(std::move(f)); }
  const Path* path(const Path* parent, std::string part) { return &paths_.emplace_back(Path{parent, std::move(part)}); }

 private:
  std::deque<Thunk> thunks_;
  std::deque<Array> arrays_;
  std::deque<Record> records_;
  std::deque<Function> functions_;
  std::deque<Path> paths_;
  std::deque<Native> natives_;
  std::deque<NetworkView> views_;
};

}  // namespace tutti::brainscript
