// SPDX-License-Identifier: Apache-2.0
// Small helpers of the language's values.
#include "brainscript/value.h"

#include <algorithm>

namespace tutti::brainscript {

std::string kind_of(const Value& v) {
  struct Name {
    std::string operator()(None) const { return "None"; }
    std::string operator()(double) const { return "a number"; }
    std::string operator()(bool) const { return "a boolean"; }
    std::string operator()(const std::string&) const { return "a string"; }
    std::string operator()(Array*) const { return "an array"; }
    std::string operator()(Record* r) const { return r->type.empty() ? "a record" : "a " + r->type; }
    std::string operator()(Function*) const { return "a function"; }
    std::string operator()(NodeRef) const { return "a node"; }
    std::string operator()(NetworkView*) const { return "a loaded network"; }
  };
  return std::visit(Name{}, v);
}

std::string Path::str() const {
  std::vector<const Path*> chain;
  for (const Path* p = this; p; p = p->parent) chain.push_back(p);
  std::string all;
  for (auto p = chain.rbegin(); p != chain.rend(); ++p) {
    const std::string& part = (*p)->part;
    if (part.empty()) continue;
    if (!all.empty() && part.front() != '[') all += '.';
    all += part;
  }
  return all;
}

Thunk* Record::own(std::string_view name) const {
  if (!index.empty()) {
    const auto found = index.find(name);
    return found == index.end() ? nullptr : found->second;
  }
  const auto found = std::find_if(members.begin(), members.end(), [&](const auto& m) { return m.first == name; });
  return found == members.end() ? nullptr : found->second;
}

void Record::build_index() {
  index.clear();
  if (members.size() <= 16) return;
  for (const auto& [name, value] : members) index.emplace(name, value);
}

Thunk* Heap::ready(Value v, std::string name) {
  Thunk t;
  t.state = Thunk::State::done;
  t.value = std::move(v);
  t.name = std::move(name);
  return thunk(std::move(t));
}

}  // namespace tutti::brainscript
