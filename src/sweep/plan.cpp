// SPDX-License-Identifier: Apache-2.0
#include "sweep/plan.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "config/text.h"
#include "tutti/error.h"

namespace tutti::sweep {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kKeys{"config",   "arguments", "parameters", "method", "runs",   "seed", "ranks",
                                     "parallel", "objective", "goal",       "epochs", "output", "slurm"};
constexpr std::int64_t kMostRuns = 10'000;

class PlanReader {
 public:
  explicit PlanReader(const std::string& path) {
    plan_.file = path;
    std::ifstream in(path, std::ios::binary);
    if (!in) throw Error(fmt::format("sweep: cannot read '{}'\nfix: check the path; docs/sweep.md shows a file", path));
    std::ostringstream text;
    text << in.rdbuf();
    plan_.text = text.str();
    source_ = std::make_shared<Source>(Source{path, plan_.text, nullptr});
  }

  Plan run() {
    YAML::Node root;
    try {
      root = YAML::Load(plan_.text);
    } catch (const YAML::Exception& e) {
      fail(e.mark, fmt::format("this is no YAML: {}", e.msg), "docs/sweep.md shows a file");
    }
    if (!root.IsMap()) fail(root.Mark(), "a sweep is a list of key: value", "docs/sweep.md shows a file");
    check_keys(root, kKeys, "a sweep", "keys: config, arguments, parameters, method, ...");
    read(root);
    return std::move(plan_);
  }

 private:
  SourcePos place(const YAML::Mark& at) const {
    return {source_, at.is_null() ? 0 : std::min(static_cast<std::size_t>(at.pos), plan_.text.size()), 1};
  }

  [[noreturn]] void fail(const YAML::Mark& at, std::string message, std::string fix) const {
    throw ConfigError(place(at), std::move(message), std::move(fix));
  }

  std::string name(const YAML::Node& key) const {
    if (!key.IsScalar()) fail(key.Mark(), "a key must be a word", "docs/sweep.md shows a file");
    return key.Scalar();
  }

  // The map has no other keys, and each at most once.
  void check_keys(const YAML::Node& map, const std::vector<std::string>& known, const char* what,
                  const std::string& fix) const {
    std::vector<std::string> given;
    for (const auto& entry : map) {
      const std::string key = name(entry.first);
      if (std::ranges::find(known, key) == known.end())
        fail(entry.first.Mark(), fmt::format("{} has no '{}'", what, key), did_you_mean(key, known, fix));
      if (std::ranges::find(given, key) != given.end())
        fail(entry.first.Mark(), fmt::format("'{}' is given twice", key), "keep one of them");
      given.push_back(key);
    }
  }

  template <class T>
  T value(const YAML::Node& node, const std::string& key, const char* what) const {
    try {
      return node.as<T>();
    } catch (const YAML::Exception&) {
      fail(node.Mark(), fmt::format("'{}' must be {}", key, what), fmt::format("write {}: {}", key, what));
    }
  }

  std::int64_t number(const YAML::Node& root, const char* key, std::int64_t otherwise, std::int64_t least) const {
    if (!root[key]) return otherwise;
    const auto n = value<std::int64_t>(root[key], key, "a whole number");
    if (n < least)
      fail(root[key].Mark(), fmt::format("'{}' must be {} or more", key, least), fmt::format("{}: {}", key, least));
    return n;
  }

  std::vector<std::string> texts(const YAML::Node& node, const std::string& key) const {
    if (!node) return {};
    if (node.IsScalar()) return {node.Scalar()};
    if (!node.IsSequence())
      fail(node.Mark(), fmt::format("'{}' must be a text or a list", key), fmt::format("{}: [one, another]", key));
    std::vector<std::string> all;
    for (const auto& one : node) all.push_back(value<std::string>(one, key, "a list of texts"));
    return all;
  }

  void read(const YAML::Node& root) {
    plan_.configs = texts(root["config"], "config");
    if (plan_.configs.empty()) fail(root.Mark(), "the sweep names no config", "config: my.cntk");
    plan_.arguments = texts(root["arguments"], "arguments");
    plan_.slurm = texts(root["slurm"], "slurm");
    read_method(root);
    read_parameters(root);
    plan_.runs = number(root, "runs", 0, 1);
    if (plan_.runs == 0 && plan_.method != Method::grid)
      fail(root.Mark(), "random and halving need a number of runs", "runs: 12");
    if (plan_.runs > 0 && plan_.method == Method::grid)
      fail(root["runs"].Mark(), "a grid has as many runs as combinations", "remove runs, or method: random");
    if (plan_.runs > kMostRuns)
      fail(root["runs"].Mark(), fmt::format("a sweep has at most {} runs", kMostRuns),
           fmt::format("runs: {}", kMostRuns));
    plan_.seed = static_cast<std::uint64_t>(number(root, "seed", 1, 0));
    plan_.ranks = number(root, "ranks", 1, 1);
    plan_.parallel = number(root, "parallel", 0, 1);
    read_objective(root);
    if (const YAML::Node epochs = root["epochs"]) {
      if (plan_.method != Method::halving) fail(epochs.Mark(), "'epochs' belongs to method: halving", "remove it");
      const std::string example = "epochs: {first: 1, factor: 3}";
      if (!epochs.IsMap()) fail(epochs.Mark(), "'epochs' must have first and factor", example);
      check_keys(epochs, {"first", "factor"}, "'epochs'", example);
      plan_.first_epochs = number(epochs, "first", 1, 1);
      plan_.factor = number(epochs, "factor", 3, 2);
    }
    plan_.output = root["output"] ? value<std::string>(root["output"], "output", "a folder")
                                  : (fs::path("sweeps") / fs::path(plan_.file).stem()).string();
    make_absolute();
  }

  // The runs go to another directory first; files of the sweep are meant from here.
  void make_absolute() {
    const auto changes = [](const std::string& a) { return config::to_lower(a).starts_with("currentdirectory="); };
    if (std::ranges::none_of(plan_.arguments, changes)) return;
    plan_.output = fs::absolute(plan_.output).string();
    for (std::string& c : plan_.configs)
      if (fs::exists(c)) c = fs::absolute(c).string();
  }

  void read_method(const YAML::Node& root) {
    if (!root["method"]) return;
    const std::string word = value<std::string>(root["method"], "method", "grid, random or halving");
    const std::vector<std::string> words{"grid", "random", "halving"};
    const auto at = std::ranges::find(words, word);
    if (at == words.end())
      fail(root["method"].Mark(), fmt::format("there is no method '{}'", word),
           did_you_mean(word, words, "grid, random or halving"));
    plan_.method = static_cast<Method>(at - words.begin());
  }

  void read_objective(const YAML::Node& root) {
    if (const YAML::Node node = root["objective"]) {
      plan_.objective = value<std::string>(node, "objective", "validation.NAME, training.NAME or test.NAME");
      plan_.objective_at = place(node.Mark());
      const std::string of = plan_.objective.substr(0, plan_.objective.find('.'));
      if (of.size() == plan_.objective.size() || (of != "training" && of != "validation" && of != "test"))
        fail(node.Mark(), fmt::format("'{}' is no objective", plan_.objective), "objective: validation.errs");
      if (of == "test" && plan_.method == Method::halving)
        fail(node.Mark(), "halving compares runs before they are tested",
             "objective: validation." + plan_.objective.substr(5));
    }
    if (!root["goal"]) return;
    const std::string goal = value<std::string>(root["goal"], "goal", "minimum or maximum");
    if (goal != "minimum" && goal != "maximum")
      fail(root["goal"].Mark(), fmt::format("the goal cannot be '{}'", goal), "goal: minimum, or goal: maximum");
    plan_.maximize = goal == "maximum";
  }

  void read_parameters(const YAML::Node& root) {
    const YAML::Node all = root["parameters"];
    if (!all || !all.IsMap() || all.size() == 0)
      fail(all ? all.Mark() : root.Mark(), "the sweep varies no parameters",
           "parameters: then lines such as Train.SGD.minibatchSize: [64, 128]");
    for (const auto& entry : all) {
      Parameter p;
      p.key = name(entry.first);
      p.at = place(entry.first.Mark());
      if (std::ranges::any_of(plan_.parameters, [&](const auto& q) { return config::equal_keys(q.key, p.key); }))
        fail(entry.first.Mark(), fmt::format("the parameter '{}' is given twice", p.key),
             "name all of its values in one list");
      if (entry.second.IsMap())
        read_range(entry.second, p);
      else
        p.values = texts(entry.second, p.key);
      if (p.values.empty() && p.from == p.to)
        fail(entry.second.Mark(), fmt::format("'{}' has no values", p.key), "a list such as [64, 128]");
      plan_.parameters.push_back(std::move(p));
    }
  }

  void read_range(const YAML::Node& node, Parameter& p) {
    check_keys(node, {"from", "to", "scale", "integer"}, "a range", "{from: 0.01, to: 1, scale: log, integer: false}");
    if (plan_.method == Method::grid)
      fail(node.Mark(), fmt::format("a grid needs the values of '{}'", p.key), "a list, or method: random");
    if (!node["from"] || !node["to"])
      fail(node.Mark(), fmt::format("the range of '{}' needs from and to", p.key), "{from: 0.01, to: 1}");
    p.from = value<double>(node["from"], "from", "a number"), p.to = value<double>(node["to"], "to", "a number");
    if (node["integer"]) p.integer = value<bool>(node["integer"], "integer", "true or false");
    if (node["scale"]) {
      const std::string scale = value<std::string>(node["scale"], "scale", "log or linear");
      if (scale != "log" && scale != "linear")
        fail(node["scale"].Mark(), fmt::format("there is no scale '{}'", scale), "scale: log, or scale: linear");
      p.logarithmic = scale == "log";
    }
    if (!(p.from < p.to) || !std::isfinite(p.to))
      fail(node.Mark(), fmt::format("the range of '{}' is empty", p.key), "from must be below to");
    if (p.integer && std::ceil(p.from) > std::floor(p.to))
      fail(node.Mark(), fmt::format("the range of '{}' holds no whole number", p.key), "integer: false");
    if (p.logarithmic && p.from <= 0) fail(node.Mark(), "a logarithmic range begins above 0", "from: 1e-5");
  }

  Plan plan_;
  std::shared_ptr<const Source> source_;
};

// A number from 0 to 1 that depends on nothing but these three (SplitMix64).
double draw(std::uint64_t seed, std::uint64_t run, std::uint64_t parameter) {
  std::uint64_t x = seed * 0x9e3779b97f4a7c15u + run * 0xbf58476d1ce4e5b9u + parameter * 0x94d049bb133111ebu;
  for (const auto factor : {0xbf58476d1ce4e5b9u, 0x94d049bb133111ebu}) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * factor;
    x ^= x >> 27;
  }
  return static_cast<double>((x ^ (x >> 31)) >> 11) * 0x1p-53;
}

std::string drawn_value(const Parameter& p, double u) {
  if (!p.values.empty())
    return p.values[std::min(static_cast<std::size_t>(u * static_cast<double>(p.values.size())), p.values.size() - 1)];
  // A whole number stands for all that are rounded to it, so the ends are drawn as often as the others.
  const double least = std::ceil(p.from), most = std::floor(p.to);
  const double from = p.integer ? least - 0.5 : p.from, to = p.integer ? most + 0.5 : p.to;
  const double v =
      p.logarithmic ? std::exp(std::log(from) + u * (std::log(to) - std::log(from))) : from + u * (to - from);
  if (!p.integer) return fmt::format("{:.4g}", v);
  return fmt::format("{:.0f}", std::clamp(std::round(v), least, most) + 0.0);  // 0, and not -0
}

// The configs with all that they include, without comments and layout. What cannot be read is left to words_of.
std::string text_of_configs(const Plan& plan) {
  Problems problems;
  config::Notices notices;
  config::Loader loader(problems, notices);
  std::string all;
  const std::function<void(const config::TextPtr&)> add = [&](const config::TextPtr& text) {
    if (!text) return;
    std::istringstream words(text->clean);
    for (std::string word; words >> word;) all += word + ' ';
    for (const auto& [at, included] : text->includes) std::ranges::for_each(included, add);
  };
  for (const std::string& names : plan.configs)
    if (const config::TextPtr text = loader.text("config", names))
      for (const config::TextRange& name : config::split_files({text, 0, names.size()}))
        add(loader.file(std::string(name.view()), name.where()));
  return all;
}

// Continues a hash (FNV-1a).
std::uint64_t hash_of(const std::string& text, std::uint64_t h = 14695981039346656037u) {
  for (const char c : text + '\n') h = (h ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return h;
}

// `h`: of the texts of the configs.
std::uint64_t hash_of(const Plan& plan, const Run& run, std::uint64_t h) {
  for (const auto& c : plan.configs) h = hash_of(c, h);
  for (const auto& a : plan.arguments) h = hash_of(a, h);
  for (const auto& [key, value] : run.values) h = hash_of(value, hash_of(key, h));
  return h;
}

}  // namespace

Plan read_plan(const std::string& path) { return PlanReader(path).run(); }

std::vector<Run> make_runs(const Plan& plan) {
  std::int64_t count = plan.runs;
  if (plan.method == Method::grid) {
    count = 1;
    for (const Parameter& p : plan.parameters) {
      count *= static_cast<std::int64_t>(p.values.size());
      if (count > kMostRuns)
        throw Error(
            fmt::format("sweep: the grid has more than {} runs\nfix: fewer values, or method: random", kMostRuns));
    }
  }
  // Random draws repeat: until there are enough different ones, or no more are found.
  const std::int64_t draws = plan.method == Method::grid ? count : 100 * count + 1000;
  const std::uint64_t configs = hash_of(text_of_configs(plan));
  std::vector<Run> runs;
  for (std::int64_t i = 0; i < draws && static_cast<std::int64_t>(runs.size()) < count; ++i) {
    Run run;
    auto rest = static_cast<std::size_t>(i);
    // The last parameter changes fastest.
    std::vector<std::string> values(plan.parameters.size());
    for (std::size_t k = plan.parameters.size(); k-- > 0;) {
      const Parameter& p = plan.parameters[k];
      if (plan.method == Method::grid)
        values[k] = p.values[rest % p.values.size()], rest /= p.values.size();
      else
        values[k] = drawn_value(p, draw(plan.seed, static_cast<std::uint64_t>(i), k));
    }
    for (std::size_t k = 0; k < values.size(); ++k) run.values.emplace_back(plan.parameters[k].key, values[k]);
    const std::uint64_t hash = hash_of(plan, run, configs);
    run.name = fmt::format("run-{:08x}", static_cast<std::uint32_t>(hash ^ (hash >> 32)));
    const auto named = std::ranges::find(runs, run.name, &Run::name);
    // About 1 % of sweeps with 10,000 runs have a collision of 32 bits.
    if (named != runs.end() && named->values != run.values) run.name = fmt::format("run-{:016x}", hash);
    run.folder = plan.output + "/" + run.name;
    if (std::ranges::none_of(runs, [&](const Run& r) { return r.name == run.name; })) runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace tutti::sweep
