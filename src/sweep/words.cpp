// SPDX-License-Identifier: Apache-2.0
// The command line of a run: overrides, and a place of its own for everything that the config writes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "base/file_names.h"
#include "base/pattern.h"
#include "base/trimmed.h"
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

std::string normal(const std::string& path) { return fs::path(path).lexically_normal().string(); }

// Different files of a config stay different in the folder of a run.
class Places {
 public:
  explicit Places(std::string folder) : folder_(std::move(folder)) {}
  std::string of(const std::string& written, const std::string& command) {
    const std::string path = normal(written);
    if (const auto known = places_.find(path); known != places_.end()) return known->second;
    std::string name = fs::path(path).filename().string();
    if (name.empty()) name = "model.dnn";
    std::string place = folder_ + "/" + name;
    if (std::ranges::any_of(places_, [&](const auto& p) { return p.second == place; }) ||
        std::ranges::find(own_files, name) != std::end(own_files))
      place = fmt::format("{}/{}.{}", folder_, command, name);
    return places_[path] = place;
  }
  // Of a file that has a place, or a model beside it: "model.dnn.3" of an epoch, "model.dnn.best". Empty for others.
  std::string known(const std::string& written) const {
    const std::string path = normal(written);
    if (const auto found = places_.find(path); found != places_.end()) return found->second;
    const std::string model = without_epoch(path);
    const auto found = places_.find(model);
    return found == places_.end() ? "" : found->second + path.substr(model.size());
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

// A word alone may as well be the name of a node.
bool is_path(const std::string& text) { return text.find_first_of("./") != text.npos; }

bool trains(const config::Record& command) {
  const auto actions = command.strings("action");
  return actions.empty() ||
         std::ranges::any_of(actions, [](const std::string& a) { return config::to_lower(a).starts_with("train"); });
}

bool has_action(const config::Record& command, const char* name) {
  return std::ranges::any_of(command.strings("action"),
                             [&](const std::string& a) { return config::equal_keys(a, name); });
}

bool edits(const config::Record& command) {
  return has_action(command, "edit") && !command.string("editPath", "").empty();
}

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// A file that an editing script loads or writes.
struct ScriptFile {
  std::string path;
  bool writes = false;
  std::size_t line = 0;  // from 0
};

// Of a, "b", c=d the b: the last one that is no option. Empty for "".
std::string last_argument(const std::string& arguments) {
  constexpr const char* around = " \t\r\n\"";
  std::string last;
  std::istringstream in(arguments);
  for (std::string a; std::getline(in, a, ',');) {
    if (trimmed(a).empty() || a.find('=') != a.npos) continue;
    const auto begin = std::min(a.find_first_not_of(around), a.size());
    last = a.substr(begin, a.find_last_not_of(around) + 1 - begin);
  }
  return last;
}

// What a script says to load, save and dump, with its variables substituted.
std::vector<ScriptFile> files_of_script(const std::string& script, const config::Record& command) {
  static const Pattern variable(R"(\$(\w+)\$)"), last_word(R"((\w+)[ \t]*$)");
  const std::string text = variable.replace(config::blank_comments(script),
                                            [&](const Pattern::Match& m) { return command.string(m[1], m[0]); });
  std::vector<ScriptFile> files;
  for (std::size_t open = text.find('('); open != text.npos; open = text.find('(', open + 1)) {
    const std::size_t begin = text.rfind('\n', open) + 1;  // of the line
    const auto name = last_word.search(text.substr(begin, open - begin));
    const std::string verb = name ? config::to_lower((*name)[1]).substr(0, 4) : "";
    if (verb != "load" && verb != "save" && verb != "dump") continue;
    const auto line = std::count(text.begin(), text.begin() + static_cast<long>(open), '\n');
    const std::string path = last_argument(text.substr(open + 1, text.find(')', open) - open - 1));
    if (!path.empty()) files.push_back({path, verb != "load", static_cast<std::size_t>(line)});
  }
  return files;
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

// Settings that put the files of a command into the folder of the run. `directory`: where its paths begin.
void add_places(const config::Record& command, const std::string& name, const fs::path& directory, Places& places,
                std::vector<std::string>& words) {
  if (trains(command) && command.is_block("SGD"))
    add_places_of_sgd(command.block("SGD"), name, sgd_of(command, name), places, words);
  if (const std::string path = command.string("modelPath", ""); !path.empty()) {
    if (trains(command)) places.of(path, name);
    if (const std::string place = places.known(path); !place.empty())
      words.push_back(within({name}, "modelPath", place));
    if (has_action(command, "bnstat") && command.string("newModelPath", "").empty())  // written beside the model
      words.push_back(within({name}, "newModelPath", places.of(path + ".PBN", name)));
  }
  for (const char* key : {"outputPath", "outputFile"})
    if (const std::string path = command.string(key, ""); !path.empty() && path != "-")
      words.push_back(within({name}, key, places.of(path, name)));
  for (const char* key : files_of_some_actions)
    if (command.has_own(key) && !command.string(key, "").empty())
      words.push_back(within({name}, key, places.of(command.string(key, ""), name)));
  if (!edits(command)) return;
  for (const ScriptFile& file : files_of_script(text_of(directory / command.string("editPath", "")), command))
    if (file.writes) places.of(file.path, name);
}

// Any other setting that names one of these files: readers find them in the folder of the run, and variables carry
// them into network descriptions and scripts. `blocks`: where `level` stands.
void add_settings(const config::Record& level, const std::vector<std::string>& blocks, const Places& places,
                  std::vector<std::string>& words) {
  for (const std::string& key : level.keys()) {
    const auto is_key = [&](const char* k) { return config::equal_keys(k, key); };
    if (config::is_network_body(key)) continue;
    try {
      if (level.is_block(key)) {
        std::vector<std::string> inner = blocks;
        inner.push_back(key);
        add_settings(level.block(key), inner, places, words);
      } else if (const std::string value = level.string(key, "");
                 is_path(value) || std::ranges::any_of(lists_of_words, is_key)) {
        const std::string place = places.known(value), setting = within(blocks, key, place);
        if (!place.empty() && std::ranges::find(words, setting) == words.end()) words.push_back(setting);
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

// What a command line says, and where its paths begin.
struct Parsed {
  config::CommandLine line;
  fs::path directory;
};
Parsed parse(const std::vector<std::string>& words) {
  std::vector<const char*> argv{"trainer"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  const fs::path here = fs::current_path();  // before currentDirectory= changes it
  Parsed parsed{config::parse_command_line(static_cast<int>(argv.size()), argv.data()), fs::current_path()};
  fs::current_path(here);
  return parsed;
}

std::vector<std::string> commands_of(const config::Record& top) {
  const auto commands = top.strings("command");
  return commands.empty() ? std::vector<std::string>{"train"} : commands;
}

RunWords make_words(const Plan& plan, const Run& run, int until, Places& places) {
  RunWords result;
  std::vector<std::string>& words = result.words;
  for (const std::string& c : plan.configs) words.push_back("configFile=" + c);
  words.insert(words.end(), plan.arguments.begin(), plan.arguments.end());
  for (const auto& [key, value] : run.values)
    words.push_back(
        config::nested_setting(key, value.find(':') == value.npos ? config::quoted_if_needed(value) : value));
  const auto& [line, directory] = parse(words);
  for (const char* key : files_of_some_actions)
    if (!line.config.string(key, "").empty())
      words.push_back(within({}, key, places.of(line.config.string(key, ""), "all")));
  std::vector<std::string> commands = commands_of(line.config);
  const auto ended = plan.method == Method::halving ? read_log(run.log()).ended_early : std::map<std::string, int>{};
  std::size_t to_last_training = 0;  // number of commands
  for (std::size_t k = 0; k < commands.size(); ++k) {
    const std::string& name = commands[k];
    if (!line.config.is_block(name)) continue;
    const config::Record command = line.config.block(name);
    add_places(command, name, directory, places, words);
    if (!trains(command)) continue;
    to_last_training = k + 1;
    const bool over = ended.contains(name);
    const int limit = over ? ended.at(name) : until;
    const auto epochs = command.is_block("SGD") ? command.block("SGD").integer("maxEpochs", 0) : 0;
    result.epochs = static_cast<int>(until > 0 ? std::min<std::int64_t>(epochs, until) : epochs);
    if (limit == 0 || epochs <= limit) continue;
    words.push_back(within(sgd_of(command, name), "maxEpochs", std::to_string(limit)));
    if (!over) result.whole = false;
  }
  add_settings(line.config, {}, places, words);
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

[[noreturn]] void refuse_shared(SourcePos where, const std::string& path) {
  throw ConfigError(
      std::move(where), fmt::format("all runs of the sweep would share '{}'", path),
      fmt::format("define modelFile = \"{}\" in the config and write \"$modelFile$\" here; the sweep sets the "
                  "variable to the file of each run",
                  path));
}

void check_network(const config::Value& body, const Places& places) {
  static const Pattern text(R"--("([^"\n]*)"|'([^'\n]*)')--");
  for (const Pattern::Match& m : text.search_all(body.text)) {
    const std::string path = m[1] + m[2];
    if (!is_path(path) || places.known(path).empty()) continue;
    SourcePos where = body.where;
    if (where.length == body.text.size()) where.offset += body.text.find(m[0]), where.length = m[0].size();
    refuse_shared(where, path);
  }
}

void check_script(const config::Record& command, const fs::path& directory, const Places& places) {
  const std::string path = command.string("editPath", ""), text = text_of(directory / path);
  for (const ScriptFile& file : files_of_script(text, command)) {
    if (places.known(file.path).empty()) continue;
    std::size_t begin = 0;
    for (std::size_t line = 0; line < file.line; ++line) begin = text.find('\n', begin) + 1;
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    refuse_shared({std::make_shared<Source>(Source{path, text, nullptr}), begin, end - begin}, file.path);
  }
}

}  // namespace

RunWords words_of(const Plan& plan, const Run& run, int until) {
  Places places(run.folder);
  return make_words(plan, run, until, places);
}

void check_files(const Plan& plan, const Run& run) {
  Places places(run.folder);
  const auto& [line, directory] = parse(make_words(plan, run, 0, places).words);
  for (const std::string& name : commands_of(line.config)) {
    if (!line.config.is_block(name)) continue;
    const config::Record command = line.config.block(name);
    for (const char* key : {"BrainScriptNetworkBuilder", "ExperimentalNetworkBuilder"})
      if (const auto body = command.find(key)) check_network(*body, places);
    if (edits(command)) check_script(command, directory, places);
  }
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
