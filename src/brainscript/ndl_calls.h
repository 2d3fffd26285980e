// SPDX-License-Identifier: Apache-2.0
// ndl_calls.h -- which function of the older network language a call means, and which argument is which.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "brainscript/ndl.h"

namespace tutti::brainscript::ndl {

[[noreturn]] void fail(const Span& where, std::string message, std::string fix = {});

struct Matched {
  std::vector<const Argument*> by_parameter;  // null where nothing is given
  const Argument* tag = nullptr;
};

// A number, a string, a list of numbers, a node.
using Value = std::variant<std::monostate, double, std::string, std::vector<double>, std::size_t>;

std::optional<bool> truth(const std::string& word);
// The value as an attribute of the parameter's kind, or an error at `where`; `call` names the function.
graph::Attribute attribute_of(const Parameter&, const Value&, const std::string& call, const Span& where);
// The one number of a constant that is a node already.
std::optional<double> constant_value(const graph::Node&);

// An error where the text still has a $variable$ in it.
void check_variables(const Expression&);
// Whether the expression uses a name.
bool names(const Expression&, const std::string& lower_name);
// Null if there is none. Capitals do not count.
const Function* find_function(const std::string& name);
// The function of a call, by its name and the form of its arguments; `macros` are what else it may have meant.
const Function& function_of(const Expression& call, const std::vector<std::string>& macros);
Matched match(const Function&, const Expression& call);
std::string shown(const Parameter&);  // its name as users know it
bool is_delay(const Function&);
// One spelling for each initialiser, no attribute that has no say, and the seed, of which -1 is wanted where none is.
void settle_parameter(graph::Node&, const Expression& call, const std::function<double(double wanted)>& seed);

}  // namespace tutti::brainscript::ndl
