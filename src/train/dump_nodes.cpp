// SPDX-License-Identifier: Apache-2.0
// The text of action dumpNode, token for token as CNTK prints it.
#include <fmt/format.h>
#include <fmt/printf.h>

#include <algorithm>
#include <ostream>
#include <regex>

#include "train/model_file.h"
#include "tutti/error.h"

namespace tutti {

namespace {

std::vector<const graph::Node*> chosen(const graph::Graph& g, const DumpOptions& o) {
  std::vector<const graph::Node*> nodes;
  std::vector<std::string> names;
  try {
    const std::regex pattern(o.node_name_regex);
    for (const graph::Node& n : g.nodes) {
      names.push_back(n.name);
      const bool listed = std::find(o.names.begin(), o.names.end(), n.name) != o.names.end();
      const bool wanted = !o.names.empty()            ? listed
                          : o.node_name_regex.empty() ? o.node_name == "__AllNodes__" || o.node_name == n.name
                                                      : std::regex_match(n.name, pattern);
      if (wanted) nodes.push_back(&n);
    }
  } catch (const std::regex_error& e) {
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

}  // namespace

void dump_nodes(const ModelView& m, const DumpOptions& o, std::ostream& out) {
  for (const graph::Node* n : chosen(*m.graph, o)) {
    const auto at = std::lower_bound(m.values.begin(), m.values.end(), n->name,
                                     [](const ModelValue& v, const std::string& name) { return v.name < name; });
    const ModelValue* value = at != m.values.end() && at->name == n->name ? &*at : nullptr;
    if (o.print_metadata) print_head(m, *n, value, out);
    if (value && o.print_values) {
      print_values(*value, out);
      if (o.print_metadata) out << ' ' << std::string(68, '#') << '\n';
    }
  }
}

}  // namespace tutti
