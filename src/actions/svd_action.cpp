// SPDX-License-Identifier: Apache-2.0
// action = "SVD": replaces weight matrices of a trained model with products of two smaller ones.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "actions/evaluation_network.h"
#include "base/pattern.h"
#include "train/checkpoint.h"
#include "train/file.h"
#include "train/low_rank.h"
#include "train/model_file.h"
#include "tutti/log.h"

namespace tutti::actions {

namespace {

struct SvdOptions {
  std::string model_path, output_model_path, node_name_regex, config_file;
  double keep_ratio = 0.4;
  std::int64_t aligned_size = 8;
  void describe(config::Fields&);
};

// The parameters whose whole names match `pattern`; each once, in the order of the rules.
struct SvdRule {
  std::string pattern;
  double keep_ratio = 0.4;
};

void SvdOptions::describe(config::Fields& f) {
  f("modelPath", model_path, "the trained model");
  f.required("modelPath");
  f("outputModelPath", output_model_path, "path of the factored model");
  f.required("outputModelPath");
  f("keepRatio", keep_ratio, "share of the sum of the singular values to keep; 1 = all");
  f("alignedSize", aligned_size, "the number of singular values kept is rounded up to a multiple of this");
  f("nodeNameRegex", node_name_regex, "parameters to factor: a regular expression that matches the whole name");
  f("SVDConfig", config_file, "instead of nodeNameRegex: file with one regular expression and ratio per line");
  if (keep_ratio <= 0 || keep_ratio > 1)
    f.problem("keepRatio", fmt::format("keepRatio must be above 0 and at most 1, not {}", keep_ratio),
              "above 0, up to 1");
  if (aligned_size < 1)
    f.problem("alignedSize", fmt::format("alignedSize must be at least 1, not {}", aligned_size), "1 or more");
  if (node_name_regex.empty() == config_file.empty())
    f.problem("nodeNameRegex", "give exactly one of nodeNameRegex and SVDConfig", "nodeNameRegex = \"W.*\"");
}

std::vector<SvdRule> rules_of(const ActionContext& context, const SvdOptions& o) {
  if (!o.node_name_regex.empty()) {
    check_regex(context.command.value("nodeNameRegex").where, o.node_name_regex);
    return {{o.node_name_regex, o.keep_ratio}};
  }
  const SourcePos where = context.command.value("SVDConfig").where;
  std::ifstream in(o.config_file);
  if (!in) throw ConfigError(where, fmt::format("cannot read the SVDConfig '{}'", o.config_file), "check the path");
  std::vector<SvdRule> rules;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    std::istringstream words(line);
    SvdRule rule;
    std::string rest;
    if (!(words >> rule.pattern)) continue;
    if (!(words >> rule.keep_ratio) || words >> rest || rule.keep_ratio <= 0 || rule.keep_ratio > 1)
      throw ConfigError(where, fmt::format("line {} of '{}' is not a rule: '{}'", number, o.config_file, line),
                        "write a regular expression, a blank and a ratio up to 1: W[1-5] 0.4");
    check_regex(where, rule.pattern);
    rules.push_back(rule);
  }
  if (rules.empty()) throw ConfigError(where, fmt::format("'{}' holds no rule", o.config_file), "W.* 0.4");
  return rules;
}

bool multiplies(const graph::Node& user, std::size_t w) {
  return user.operation == "Times" && user.inputs.size() == 2 && user.inputs[0] == w && user.inputs[1] != w &&
         graph::number(user, "outputRank", 1) == 1;
}

graph::Node parameter(const graph::Node& like, const char* suffix, std::vector<double> dims,
                      std::vector<float> values) {
  graph::Node n;
  n.name = like.name + suffix;
  n.operation = "LearnableParameter";
  n.attributes = {{"dims", std::move(dims)}, {"init", std::string("fixedValue")}, {"value", 0.0}};
  if (const auto rate = like.attributes.find("learningRateMultiplier"); rate != like.attributes.end())
    n.attributes.insert(*rate);
  n.start = std::make_shared<std::vector<float>>(std::move(values));
  return n;
}

class Factoring {
 public:
  Factoring(graph::Graph& graph, std::size_t aligned) : graph_(graph), aligned_(aligned) {
    for (const auto& n : graph_.nodes) names_.insert(n.name);
  }

  std::string factor(std::size_t w, double keep_ratio) {
    const graph::Node node = graph_.nodes[w];
    const auto dims = graph::numbers(node, "dims");
    const auto rows = static_cast<std::size_t>(dims[0]), columns = node.start->size() / rows;
    const LowRank f = factorize(*node.start, rows, columns, keep_ratio, aligned_);
    std::vector<double> right = dims;
    right[0] = static_cast<double>(f.rank);
    const std::size_t v = add(parameter(node, "-V", right, f.right));
    const std::size_t u = add(parameter(node, "-U", {dims[0], static_cast<double>(f.rank)}, f.left));
    std::size_t product = 0;
    for (std::size_t n = 0, count = graph_.nodes.size(); n < count; ++n) {
      const bool uses = std::count(graph_.nodes[n].inputs.begin(), graph_.nodes[n].inputs.end(), w) > 0;
      if (uses && multiplies(graph_.nodes[n], w)) {
        graph::Node inner = graph_.nodes[n];  // V x, with what the product says of its shapes
        inner.name = node.name + "-SVD";
        inner.inputs[0] = v;
        const std::size_t made = add(std::move(inner));
        graph_.nodes[n].inputs = {u, made};
        graph_.nodes[n].attributes.erase("inferInputRankToMap");
      } else if (uses) {
        if (product == 0) product = add({node.name + "-SVD", "Times", {u, v}, {}, {}, nullptr});
        std::replace(graph_.nodes[n].inputs.begin(), graph_.nodes[n].inputs.end(), w, product);
      }
    }
    const double share = static_cast<double>((rows + columns) * f.rank) / static_cast<double>(rows * columns);
    return fmt::format("SVD of '{}' [{} x {}]: {} of {} singular values, {:.1f} % of the parameters", node.name, rows,
                       columns, f.rank, f.singular_values.size(), 100 * share);
  }

 private:
  std::size_t add(graph::Node node) {
    const std::string wanted = node.name;
    for (int k = 2; !names_.insert(node.name).second; ++k) node.name = fmt::format("{}_{}", wanted, k);
    graph_.nodes.push_back(std::move(node));
    return graph_.nodes.size() - 1;
  }

  graph::Graph& graph_;
  std::size_t aligned_;
  std::set<std::string> names_;
};

// Parameters that can be factored: matrices, and tensors that only products use.
bool is_matrix(const graph::Graph& g, std::size_t n) {
  const graph::Node& node = g.nodes[n];
  if (node.operation != "LearnableParameter" || !node.start) return false;
  const auto dims = graph::numbers(node, "dims");
  if (dims.size() < 2 || dims[0] <= 1 || node.start->size() <= static_cast<std::size_t>(dims[0])) return false;
  return dims.size() == 2 || std::all_of(g.nodes.begin(), g.nodes.end(), [&](const graph::Node& user) {
           return std::find(user.inputs.begin(), user.inputs.end(), n) == user.inputs.end() || multiplies(user, n);
         });
}

// A parameter with several axes that a pattern may mean.
bool is_tensor(const graph::Node& node) {
  if (node.operation != "LearnableParameter") return false;
  const auto dims = graph::numbers(node, "dims");
  return std::count_if(dims.begin(), dims.end(), [](double d) { return d > 1; }) > 1;
}

void drop_node(graph::Graph& g, std::size_t dropped) {
  g.nodes.erase(g.nodes.begin() + static_cast<std::ptrdiff_t>(dropped));
  const auto shift = [&](std::vector<std::size_t>& all) {
    std::erase(all, dropped);
    for (auto& n : all) n -= n > dropped;
  };
  for (auto& n : g.nodes) shift(n.inputs);
  for (auto* set : {&g.features, &g.labels, &g.criteria, &g.evaluations, &g.outputs}) shift(*set);
}

// Before the run: checks that the rules match something and that the result can be written.
void check_rules(const ActionContext& context, const SvdOptions& options, const std::vector<SvdRule>& rules) {
  if (!file_exists(options.model_path)) return;  // an earlier action of this run makes it
  const graph::Graph graph = load_trained(options.model_path);
  std::vector<std::string> matrices;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n)
    if (is_matrix(graph, n)) matrices.push_back(graph.nodes[n].name);
  for (const auto& rule : rules) {
    const Pattern pattern(rule.pattern);
    if (std::any_of(matrices.begin(), matrices.end(), [&](const auto& m) { return pattern.match(m).has_value(); }))
      continue;
    const char* key = options.node_name_regex.empty() ? "SVDConfig" : "nodeNameRegex";
    throw ConfigError(context.command.value(key).where,
                      fmt::format("no matrix of '{}' matches '{}'", options.model_path, rule.pattern),
                      matrices.empty() ? "the model has none" : fmt::format("one of them is '{}'", matrices[0]));
  }
}

// Factors the matrices of a trained graph (Node::start) that the rules select into W-U and W-V. Products W * x become
// W-U * (W-V * x). Returns a line per parameter that matches. Throws Error if no matrix does.
std::vector<std::string> factor_matrices(graph::Graph& graph, const std::vector<SvdRule>& rules, std::size_t aligned) {
  std::vector<std::pair<std::string, double>> chosen;  // before the factors join the graph
  std::vector<std::string> lines;
  std::set<std::string> seen;
  for (const auto& rule : rules) {
    const Pattern pattern(rule.pattern);
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
      const graph::Node& node = graph.nodes[n];
      const bool factored = is_matrix(graph, n);
      if (!(factored || is_tensor(node)) || !pattern.match(node.name) || !seen.insert(node.name).second) continue;
      if (factored)
        chosen.emplace_back(node.name, rule.keep_ratio);
      else
        lines.push_back(
            fmt::format("SVD leaves '{}' [{}] as it is: besides matrices only tensors are factored that nothing but "
                        "products with outputRank = 1 use",
                        node.name, fmt::join(graph::numbers(node, "dims"), " x ")));
    }
  }
  if (chosen.empty()) throw Error("SVD: no matrix of the model matches");
  for (const auto& [name, ratio] : chosen) {
    const auto found =
        std::find_if(graph.nodes.begin(), graph.nodes.end(), [&name = name](const auto& n) { return n.name == name; });
    const auto w = static_cast<std::size_t>(found - graph.nodes.begin());
    lines.push_back(Factoring(graph, aligned).factor(w, ratio));
    drop_node(graph, w);
  }
  return lines;
}

void run_svd(const SvdOptions& options, const std::vector<SvdRule>& rules) {
  graph::Graph graph = load_trained(options.model_path);
  for (const auto& line : factor_matrices(graph, rules, static_cast<std::size_t>(options.aligned_size)))
    log::line(line);
  Network network(std::move(graph), NetworkOptions{});
  network.initialize_parameters();
  create_directories(directory_of(options.output_model_path));
  save_model(options.output_model_path, view_model(network), true);
  log::line(fmt::format("Factored model saved to '{}'.", options.output_model_path));
}

std::optional<Action> make_svd(const ActionContext& context, SvdOptions options) {
  if (!options.model_path.empty()) check_model_to_read(context, options.model_path, true);
  std::vector<SvdRule> rules;
  if (context.flawless())
    check(context, [&] {
      rules = rules_of(context, options);
      check_rules(context, options, rules);
    });
  context.may_write(options.output_model_path, "outputModelPath");
  context.will_write(options.output_model_path);
  return Action{
      .settings = fmt::format("  model      {}\n  new model  {}", options.model_path, options.output_model_path),
      .run = [options, rules] { run_svd(options, rules); }};
}

}  // namespace

ActionEntry svd_action() {
  return action_entry({"SVD"}, false, make_svd,
                      "replaces weight matrices of a model with products of two smaller matrices");
}

}  // namespace tutti::actions
