// SPDX-License-Identifier: Apache-2.0
// Reads argv: flags through CLI11, all other words in order as configuration.
#include "config/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <set>

#include "base/write_root.h"
#include "config/load.h"
#include "config/state.h"

namespace tutti::config {
namespace fs = std::filesystem;
namespace {

// Relative to the directory in which the trainer was started, not to currentDirectory=.
void write_under(const std::string& directory) {
  std::error_code ignored;
  if (!fs::is_directory(directory, ignored))
    throw CLI::ValidationError("--write-under", fmt::format("there is no directory '{}'", directory));
  set_write_root(directory);
}

// The table of flags, for parsing, usage and suggestions.
void add_flags(CLI::App& app, CommandLine& flags) {
  app.set_help_flag();
  app.add_flag("-h,--help", flags.help, "print this text");
  app.add_flag("--version", flags.version, "print the version and what is built in");
  app.add_flag(
      "--check", flags.check,
      "parse, build the network, check files and shapes, print the effective settings as a config; train nothing");
  app.add_flag("--dry-run", flags.dry_run, "the same, and allocate the memory and train one step; nothing is written");
  app.add_flag("-v,--verbose", flags.verbose, "with --check: print the options that were not set, too, as comments");
  app.add_flag("--dump-config", flags.dump_config, "print the merged configuration with variables resolved");
  app.add_flag("--strict", flags.strict, "a setting of the command line that no command uses is an error");
  app.add_option_function<std::string>(
      "--write-under", write_under,
      "DIR: a config that names a file to write outside of this directory is refused; for configs of strangers");
  app.allow_extras();
}

std::vector<std::string> flag_names() {
  CLI::App app;
  CommandLine flags;
  add_flags(app, flags);
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

bool belongs_to_mpiexec(std::string_view word) {
  constexpr std::string_view theirs =
      " -n -np -c -H -x --np --n --hostfile -hostfile --machinefile -machinefile --host -host --bind-to --map-by "
      "--rankfile --mca --prtemca --pmixmca -mca --oversubscribe --allow-run-as-root ";
  return theirs.find(fmt::format(" {} ", word)) != std::string_view::npos;
}

std::string_view trim_end(std::string_view s) {
  while (!s.empty() && is_blank(s.back())) s.remove_suffix(1);
  return s;
}

// `word` is key=rest, whatever the case of the key; gives where the rest begins.
std::size_t value_of_word(std::string_view word, std::string_view key) {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos) return 0;
  return equal_keys(trim_end(word.substr(0, equals)), key) ? equals + 1 : 0;
}

// ---- arguments that the shell has split: without quotes it ends a command at ';' and an argument at a blank

// The closing characters of everything that is open at the end of the text; `first` is the place of the first opening.
// Text with a surplus or wrong bracket was not split by the shell.
std::string missing_at_end(std::string_view text, std::size_t& first) {
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      const std::size_t end = text.find('"', i + 1);
      if (end == std::string_view::npos) {
        open.push_back(i);
        break;
      }
      i = end;
    } else if (c == '[' || c == '{' || c == '(') {
      open.push_back(i);
    } else if (c == ']' || c == '}' || c == ')') {
      if (open.empty()) return {};
      open.pop_back();
    }
  }
  std::string missing;
  for (auto at = open.rbegin(); at != open.rend(); ++at) {
    const char c = text[*at];
    missing += c == '[' ? ']' : c == '{' ? '}' : c == '(' ? ')' : '"';
  }
  if (!open.empty()) first = open.front();
  return missing;
}

// Finds arguments with open brackets or quotes and reports how to write them. Ignores flags. Returns, for each word,
// whether it is such an argument or a part of one.
std::vector<bool> check_arguments(const std::vector<std::string>& words, const std::vector<bool>& is_flag,
                                  Problems& problems) {
  std::vector<bool> cut(words.size(), false);
  std::size_t at = 0;
  for (std::size_t i = 0; i < words.size(); at += words[i++].size() + 1) {
    std::size_t first = 0, ignored = 0, end = i + 1;
    const std::string missing = is_flag[i] || cut[i] ? "" : missing_at_end(words[i], first);
    if (missing.empty()) continue;
    // After a split at a blank, the rest is in the following words.
    std::string whole = words[i], still = missing;
    while (end < words.size() && !still.empty()) {
      whole += " " + words[end++];
      still = missing_at_end(whole, ignored);
    }
    std::string fix = fmt::format("the shell splits arguments at blanks; quote the argument: '{}'", whole);
    if (!still.empty()) {
      end = i + 1;
      fix = fmt::format(
          "the shell ends a command at ';' unless the argument stands in quotes: write '{0};...{1}' with the quotes; "
          "if nothing was cut off, add the missing {1}",
          words[i], missing);
    }
    std::fill(cut.begin() + static_cast<long>(i), cut.begin() + static_cast<long>(end), true);
    const auto source =
        std::make_shared<Source>(Source{"<command line>", fmt::format("{}", fmt::join(words, "\n")), nullptr});
    problems.add(Diagnostic{
        {source, at + first, 1},
        fmt::format("no closing '{}' found: the argument '{}' ends within its brackets", missing.back(), words[i]),
        std::move(fix)});
  }
  return cut;
}

class WordReader {
 public:
  explicit WordReader(CommandLine& result) : result_(result), loader_(problems_, result.notices) {}

  void run(const std::vector<std::string>& words, const std::vector<bool>& is_flag) {
    text_ = loader_.text("<command line>", fmt::format("{}", fmt::join(words, "\n")));
    problems_.throw_if_any();
    const std::vector<bool> cut = check_arguments(words, is_flag, problems_);
    std::size_t at = 0;
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (!is_flag[i] && !cut[i]) word({text_, at, at + words[i].size()});
      at += words[i].size() + 1;
    }
    if (near_config_file_.text) judge_near_miss();
    if (problems_.empty() && texts_.empty())
      problem({text_, 0, text_->clean.size()}, "no configuration is given",
              "add configFile=path, or settings as key=value");
    result_.config = record_from_texts(texts_, loader_.directories(), problems_);
    problems_.throw_if_any();
  }

 private:
  void problem(const TextRange& where, std::string message, std::string fix) {
    problems_.add(Diagnostic{where.where(), std::move(message), std::move(fix)});
  }

  void word(const TextRange& whole) {
    const TextRange w = trim(whole);
    const std::string_view text = w.view();
    const bool after_flag = std::exchange(after_unknown_flag_, false);
    if (text.empty()) return;
    if (text[0] == '-') return unknown_flag(w);
    if (after_flag && text.find('=') == std::string_view::npos) return;  // the argument of that flag
    if (const std::size_t v = value_of_word(text, "configFile")) return config_files(w.part(w.begin + v, w.end));
    if (const std::size_t v = value_of_word(text, "currentDirectory")) change_directory(w.part(w.begin + v, w.end));
    if (text.find_first_of("=[{") == std::string_view::npos && looks_like_file(std::string(text)))
      return problem(w, fmt::format("'{}' is neither a flag nor a setting", text),
                     fmt::format("did you mean configFile={}?", text));
    const std::string_view key = text.substr(0, text.find('='));
    if (key.size() < text.size() && key.size() >= 6 && nearest(trim_end(key), {"configFile"}) == "configFile")
      near_config_file_ = w;
    texts_.push_back(whole);
  }

  // Without any config file, a misspelt configFile= would cause all later errors; beside one, it is a variable such as
  // ConfigDir unless it names a file.
  void judge_near_miss() {
    const std::string_view text = near_config_file_.view();
    const std::size_t equals = text.find('=');
    const std::string_view key = text.substr(0, equals);
    std::error_code ignored;
    const bool names_file = fs::is_regular_file(std::string(text.substr(equals + 1)), ignored);
    const TextRange where = near_config_file_.part(near_config_file_.begin, near_config_file_.begin + equals);
    if (result_.config_files.empty())
      problem(where, fmt::format("no config file is named, and '{}' does not name one", key),
              "did you mean configFile=...?");
    else if (names_file)
      result_.notices.lines.push_back(
          fmt::format("'{}' on the command line is read as an ordinary setting; did you mean configFile={}?", text,
                      text.substr(equals + 1)));
  }

  static bool looks_like_file(const std::string& text) {
    std::error_code ignored;
    return text.find_first_of("./") != std::string::npos || fs::is_regular_file(text, ignored);
  }

  void unknown_flag(const TextRange& w) {
    after_unknown_flag_ = w.view().find('=') == std::string_view::npos;
    if (belongs_to_mpiexec(w.view().substr(0, w.view().find('='))))
      return problem(w, fmt::format("'{}' is a flag of mpiexec", w.view()),
                     "put it before the program: mpiexec -n 4 trainer configFile=...");
    const std::string all = fmt::format("flags: {}; settings are written key=value", fmt::join(flag_names(), " "));
    problem(w, fmt::format("unknown flag '{}'", w.view()), did_you_mean(w.view(), flag_names(), all));
  }

  void config_files(TextRange list) {
    list = trim(list);
    if (is_quoted(list)) list = list.part(list.begin + 1, list.end - 1);
    for (const TextRange& name : split_files(list)) {
      const std::string path(name.view());
      if (path.empty()) {
        problem(name, "configFile= names no file", "write configFile=path, or configFile=a+b for several");
        continue;
      }
      std::error_code failed;
      const fs::path id = fs::weakly_canonical(path, failed);
      if (!failed && !given_.insert(id.string()).second) {
        problem(name, "Cannot specify same config file multiple times at the command line.", "name each file once");
        continue;
      }
      result_.config_files.push_back(path);
      if (const TextPtr loaded = loader_.file(path, name.where())) texts_.push_back({loaded, 0, loaded->clean.size()});
    }
  }

  void change_directory(TextRange name) {
    name = trim(name);
    if (is_quoted(name)) name = name.part(name.begin + 1, name.end - 1);
    std::error_code failed;
    fs::current_path(std::string(name.view()), failed);
    if (failed)
      return problem(name, fmt::format("cannot change to the directory '{}': {}", name.view(), failed.message()),
                     "name an existing directory");
    result_.notices.lines.push_back(fmt::format("Changed current directory to {}", name.view()));
  }

  CommandLine& result_;
  Problems problems_;
  Loader loader_;
  TextPtr text_;
  std::vector<TextRange> texts_;
  std::set<std::string> given_;
  TextRange near_config_file_;
  bool after_unknown_flag_ = false;
};

// help=NAME, --help=NAME, or one of these words and NAME behind it. Nothing when the words do not ask for a topic.
std::string help_topic_in(const std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string_view w = words[i];
    const bool flag = w.starts_with('-');
    w.remove_prefix(std::min(w.find_first_not_of('-'), w.size()));
    if (const std::size_t v = value_of_word(w, "help")) return v < w.size() ? std::string(w.substr(v)) : "list";
    const bool asks = equal_keys(w, "help") || (flag && w == "h");
    if (asks && i + 1 < words.size() && words[i + 1].find_first_of("=-") == std::string::npos) return words[i + 1];
  }
  return {};
}

// Commands on model files, which need no config.
bool is_model_command(const std::string& word) {
  return word == "info" || word == "import" || word == "export" || word == "predict";
}

}  // namespace

CommandLine parse_command_line(int argc, const char* const* argv) {
  CommandLine result;
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  result.empty = words.empty();
  if (result.empty) return result;
  if (is_model_command(words[0])) {
    result.model_command = words;
    return result;
  }
  result.help_topic = help_topic_in(words);
  result.help = result.help_topic.empty() && std::ranges::any_of(words, [](auto& w) { return equal_keys(w, "help"); });
  if (result.help || !result.help_topic.empty()) return result;

  CLI::App app;
  add_flags(app, result);
  std::vector<std::string> rest;
  try {
    std::vector<std::string> reversed(words.rbegin(), words.rend());
    app.parse(reversed);
    rest = app.remaining();
  } catch (const CLI::ParseError& e) {
    const auto source =
        std::make_shared<Source>(Source{"<command line>", fmt::format("{}", fmt::join(words, " ")), nullptr});
    throw ConfigError({source, 0, source->text.size()}, e.what(), "see --help");
  }
  if (result.verbose && !result.check && !result.dry_run)
    result.notices.lines.push_back("-v has no effect without --check");
  // Words that CLI11 did not take keep their order; the others are flags.
  std::vector<bool> is_flag;
  std::size_t next = 0;
  for (const auto& w : words) {
    is_flag.push_back(next >= rest.size() || rest[next] != w);
    if (!is_flag.back()) ++next;
  }
  if (result.help || result.version) return result;
  WordReader(result).run(words, is_flag);
  return result;
}

std::vector<std::pair<std::string, std::string>> flags() {
  CLI::App app;
  CommandLine line;
  add_flags(app, line);
  std::vector<std::pair<std::string, std::string>> all;
  for (const CLI::Option* option : app.get_options()) {
    for (const auto& name : option->get_snames()) all.emplace_back("-" + name, option->get_description());
    for (const auto& name : option->get_lnames()) all.emplace_back("--" + name, option->get_description());
  }
  return all;
}

std::string usage() {
  CLI::App app("Trains neural networks on many workers at once.");
  CommandLine flags;
  add_flags(app, flags);
  std::string text =
      "usage: [mpiexec -n RANKS] trainer configFile=FILE[+FILE...] [KEY=VALUE | BLOCK=[KEY=VALUE;...]]... [FLAG]...\n";
  text +=
      "       trainer launch -n RANKS ...  starts it with mpiexec, and again after failures: trainer launch --help\n";
  text += "       trainer new KIND DATA     writes a config for your data: trainer new --help\n";
  text += "       trainer doctor ...        looks for what stops or slows runs on these hosts: trainer doctor --help\n";
  text += "       trainer sweep FILE.yaml   trains one config with many settings: trainer sweep --help\n";
  text +=
      "       trainer plan -n RANKS ... times every parallel method on these ranks and chooses: trainer plan --help\n";
  text +=
      "       trainer simulate ...      computes how fast other numbers of ranks and links are: trainer simulate "
      "--help\n";
  text += "       trainer diff A B          compares two configs, or a config with the settings of a model\n";
  text +=
      "       trainer completion SHELL  prints a script for bash, zsh or fish; trainer man prints the manual page\n";
  text +=
      "       trainer report DIR...     writes a page with the curves of one or several runs: trainer report --help\n";
  text += "       trainer help=NAME         explains a block (SGD), a key (gradientBits) or a function (DenseLayer)\n";
  text += "       trainer help=list         names everything that can be explained\n";
  text +=
      "       trainer info MODEL        shows the nodes, parameters and statistics of a model, of this program or "
      "CNTK's\n";
  text += "       trainer import FILE OUT   writes a model of CNTK, or weights from safetensors or npz, as a model\n";
  text += "       trainer export MODEL ...  writes a model as ONNX, safetensors or npz\n";
  text += "       trainer predict MODEL ... computes outputs for images, CTF or npy files; each command: --help\n\n";
  text += "Words are applied from left to right: a setting after configFile= overrides the file's.\n\nflags:\n";
  for (const CLI::Option* option : app.get_options())
    text += fmt::format("  {:<16} {}\n", option->get_name(false, true), option->get_description());
  return text;
}

}  // namespace tutti::config
