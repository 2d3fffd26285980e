// SPDX-License-Identifier: Apache-2.0
// The command line of a run: overrides, and a place of its own for everything that the config writes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "base/pattern.h"
#include "config/command_line.h"
#include "config/overrides.h"
#include "config/state.h"
#include "config/syntax.h"
#include "config/text.h"
#include "launch/process.h"
#include "sweep/plan.h"
#include "sweep/result.h"

namespace tutti::sweep {
namespace {

namespace fs = std::filesystem;

// What the sweep itself keeps in the folder of a run.
constexpr const char* own_files[] = {"command", "done", "ended", "log", "output", "seconds"};

// Different files of a config stay different in the folder of a run.
class Places {
 public:
  explicit Places(std::string folder) : folder_(std::move(folder)) {}
  std::string of(const std::string& path, const std::string& command) {
    if (const auto known = places_.find(path); known != places_.end()) return known->second;
    std::string name = fs::path(path).filename().string();
    if (name.empty()) name = "model.dnn";
    std::string place = folder_ + "/" + name;
    if (std::ranges::any_of(places_, [&](const auto& p) { return p.second == place; }) ||
        std::ranges::find(own_files, name) != std::end(own_files))
      place = fmt::format("{}/{}.{}", folder_, command, name);
    return places_[path] = place;
  }
  // Of a file that has a place; empty for others.
  std::string exactly(const std::string& path) const {
    const auto known = places_.find(path);
    return known == places_.end() ? "" : known->second;
  }
  // Of a file that has a place, or one of its epochs ("model.dnn.3"); empty for others.
  std::string known(const std::string& path) const {
    for (const auto& [from, to] : places_)
      if (path == from || path.starts_with(from + ".")) return to + path.substr(from.size());
    return {};
  }

 private:
  std::string folder_;
  std::map<std::string, std::string> places_;
};

// Given at the top level, they are overridden there: an action that does not know the key would refuse it in its block.
constexpr const char* files_of_some_actions[] = {"confusionFile",   "outputModelPath",   "newModelPath",
                                                 "outputVocabFile", "outputMappingFile", "outputWord2Cls",
                                                 "outputCls2Index"};
// Keys of readers for the files that writeWordAndClass writes.
constexpr const char* lists_of_words[] = {"labelMappingFile", "token", "wordclass"};

bool trains(const config::Record& command) {
  const auto actions = command.strings("action");
  return actions.empty() ||
         std::ranges::any_of(actions, [](const std::string& a) { return config::to_lower(a).starts_with("train"); });
}

// Where the command's SGD block stands. An SGD block inside the command would hide one that commands share.
std::vector<std::string> sgd_of(const config::Record& command, const std::string& name) {
  if (command.has_own("SGD")) return {name, "SGD"};
  return {"SGD"};
}

// The setting of `key` in these blocks, one inside the other.
std::string within(const std::vector<std::string>& blocks, const std::string& key, const std::string& value) {
  std::string setting = fmt::format("{}=\"{}\"", key, value);
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) setting = fmt::format("{}=[{}]", *block, setting);
  return setting;
}

// The files that an SGD block names, and a block inside it.
void add_places_of_sgd(const config::Record& sgd, const std::string& name, std::vector<std::string> blocks,
                       Places& places, std::vector<std::string>& words) {
  const auto add = [&](const config::Record& block, const std::vector<std::string>& within_blocks, const char* key) {
    if (const std::string path = block.string(key, ""); !path.empty())
      words.push_back(within(within_blocks, key, places.of(path, name)));
  };
  if (sgd.has_own("modelPath")) add(sgd, blocks, "modelPath");
  add(sgd, blocks, "timeline");
  if (!sgd.is_block("metrics")) return;
  blocks.push_back("metrics");
  for (const char* key : {"jsonl", "tensorBoard"}) add(sgd.block("metrics"), blocks, key);
}

// Settings that put the files of a command into the folder of the run.
void add_places(const config::Record& command, const std::string& name, Places& places,
                std::vector<std::string>& words) {
  if (trains(command) && command.is_block("SGD"))
    add_places_of_sgd(command.block("SGD"), name, sgd_of(command, name), places, words);
  if (const std::string path = command.string("modelPath", ""); !path.empty()) {
    if (trains(command)) places.of(path, name);
    if (const std::string place = places.known(path); !place.empty())
      words.push_back(within({name}, "modelPath", place));
  }
  for (const char* key : {"outputPath", "outputFile"})
    if (const std::string path = command.string(key, ""); !path.empty() && path != "-")
      words.push_back(within({name}, key, places.of(path, name)));
  for (const char* key : files_of_some_actions)
    if (command.has_own(key) && !command.string(key, "").empty())
      words.push_back(within({name}, key, places.of(command.string(key, ""), name)));
}

// Readers find a list that a command writes in the folder of the run. `blocks`: where `level` stands.
void add_readers(const config::Record& level, const std::vector<std::string>& blocks, const Places& places,
                 std::vector<std::string>& words) {
  for (const std::string& key : level.keys()) {
    const auto is_key = [&](const char* k) { return config::equal_keys(k, key); };
    if (config::is_network_body(key)) continue;
    try {
      if (level.is_block(key)) {
        std::vector<std::string> inner = blocks;
        inner.push_back(key);
        add_readers(level.block(key), inner, places, words);
      } else if (std::ranges::any_of(lists_of_words, is_key)) {
        const std::string place = places.exactly(level.string(key, ""));
        if (!place.empty()) words.push_back(within(blocks, key, place));
      }
    } catch (const ConfigError&) {
      // no settings, as in a script, or a value that no command reads
    }
  }
}

// A=[B=[c=1]] as parameters are written: A.B.c=1.
std::string in_dots(std::string text) {
  for (std::size_t at; (at = text.find("=[")) != text.npos;) text.replace(at, 2, ".");
  std::erase(text, ']');
  return text;
}

}  // namespace

RunWords words_of(const Plan& plan, const Run& run, int until) {
  RunWords result;
  std::vector<std::string>& words = result.words;
  for (const std::string& c : plan.configs) words.push_back("configFile=" + c);
  words.insert(words.end(), plan.arguments.begin(), plan.arguments.end());
  for (const auto& [key, value] : run.values)
    words.push_back(
        config::nested_setting(key, value.find(':') == value.npos ? config::quoted_if_needed(value) : value));
  std::vector<const char*> argv{"trainer"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  const fs::path here = fs::current_path();  // before currentDirectory= changes it
  const config::CommandLine line = config::parse_command_line(static_cast<int>(argv.size()), argv.data());
  fs::current_path(here);
  Places places(run.folder);
  for (const char* key : files_of_some_actions)
    if (!line.config.string(key, "").empty())
      words.push_back(within({}, key, places.of(line.config.string(key, ""), "all")));
  std::vector<std::string> commands = line.config.strings("command");
  if (commands.empty()) commands = {"train"};
  const auto ended = plan.method == Method::halving ? read_log(run.log()).ended_early : std::map<std::string, int>{};
  std::size_t to_last_training = 0;  // number of commands
  for (std::size_t k = 0; k < commands.size(); ++k) {
    const std::string& name = commands[k];
    if (!line.config.is_block(name)) continue;
    const config::Record command = line.config.block(name);
    add_places(command, name, places, words);
    if (!trains(command)) continue;
    to_last_training = k + 1;
    const bool over = ended.contains(name);
    const int limit = over ? ended.at(name) : until;
    if (limit == 0 || !command.is_block("SGD") || command.block("SGD").integer("maxEpochs", 0) <= limit) continue;
    words.push_back(within(sgd_of(command, name), "maxEpochs", std::to_string(limit)));
    if (!over) result.whole = false;
  }
  add_readers(line.config, {}, places, words);
  // As long as training goes on, nothing is tested.
  if (!result.whole) {
    commands.resize(to_last_training);
    words.push_back(fmt::format("command={}", fmt::join(commands, ":")));
  }
  for (const std::string& word :
       {"stderr=\"" + run.log() + '"', std::string("timestamping=false"), std::string("makeMode=true")})
    words.push_back(word);
  if (line.config.has("doneFile")) words.push_back(fmt::format("doneFile=\"{}/done\"", run.folder));
  return result;
}

// Of --strict the errors about names of parameters count: `arguments` may hold more than a config uses. Any other
// mistake, as in a value, is left to the run, which fails with it.
void check_parameters(const Plan& plan, const Run& run) {
  static const Pattern unused(R"(^<command line>:(\d+):\d+: error: (no command uses .*|.* has no '.*'$))");
  std::vector<std::string> command = words_of(plan, run, 0).words, said;
  // Messages show the words below each other, so a line is a parameter.
  std::vector<int> lines;
  int line = 1;
  for (const std::string& word : command) {
    lines.push_back(line);
    line += 1 + static_cast<int>(std::ranges::count(word, '\n'));
  }
  lines.erase(lines.begin(), lines.begin() + static_cast<long>(plan.configs.size() + plan.arguments.size()));
  command.insert(command.begin(), launch::own_path());
  for (const char* flag : {"--check", "--strict"}) command.emplace_back(flag);
  launch::Process check(command, launch::Process::Output::lines);
  const auto take = [&](bool, const std::string& text) {
    said.push_back(text.substr(0, text.find_last_not_of('\n') + 1));
  };
  while (check.running()) check.read(100, take);
  check.read(0, take);
  Problems problems;
  for (auto at = said.begin(); at != said.end(); ++at) {
    const auto m = unused.search(*at);
    if (!m) continue;
    const auto k = static_cast<std::size_t>(std::ranges::find(lines, std::atoi((*m)[1].c_str())) - lines.begin());
    if (k >= plan.parameters.size()) continue;
    const auto fix = std::find_if(at, said.end(), [](const std::string& s) { return s.starts_with("fix: "); });
    problems.add(Diagnostic{plan.parameters[k].at, (*m)[2], fix == said.end() ? "" : in_dots(fix->substr(5))});
  }
  problems.throw_if_any();
}

}  // namespace tutti::sweep
