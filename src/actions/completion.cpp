// SPDX-License-Identifier: Apache-2.0
#include "actions/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <sstream>
#include <string_view>

#include "actions/action.h"
#include "actions/help.h"
#include "actions/model_commands.h"
#include "base/exit_codes.h"
#include "config/command_line.h"
#include "config/table.h"
#include "config/text.h"
#include "config/top_level.h"
#include "train/sgd_options.h"
#include "tutti/reader.h"

namespace tutti::actions {
namespace {

namespace fs = std::filesystem;
using config::Table;
using Words = std::vector<std::string>;

constexpr const char* kBash = R"(# trainer completion bash > ~/.local/share/bash-completion/completions/trainer
_trainer() {
  local line=${COMP_LINE:0:COMP_POINT} cur=${COMP_WORDS[COMP_CWORD]} words word IFS=$' \t\n'
  read -ra words <<< "$line"
  [[ $line == *[[:blank:]] ]] && words+=("")
  word=${words[-1]}
  [[ $cur == [=:] ]] && cur=
  IFS=$'\n'
  COMPREPLY=($("${words[0]}" completion words "${words[@]:1}" 2>/dev/null))
  COMPREPLY=("${COMPREPLY[@]#"${word%"$cur"}"}")
  [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=[/] ]] && compopt -o nospace
}
complete -F _trainer trainer
)";
constexpr const char* kZsh = R"(#compdef trainer
# trainer completion zsh > a file _trainer in a folder of $fpath
_trainer() {
  local -a found
  found=("${(@f)$(${words[1]} completion words "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
  compadd -S '' -- $found
}
# The first time zsh runs this file in the place of the function.
if [[ ${funcstack[1]} == _trainer ]]; then _trainer "$@"; else compdef _trainer trainer; fi
)";
constexpr const char* kFish = R"(# trainer completion fish > ~/.config/fish/completions/trainer.fish
# A [ at the end is left to the user: fish would put a blank behind it.
complete -c trainer -f -a '(trainer completion words (commandline -opc)[2..-1] (commandline -ct | string unescape) 2>/dev/null | string replace -r "\\[\$" "")'
)";

// A table with the keys of several blocks.
void merge(Table& into, const Table& more) {
  for (const config::Row& row : more.rows)
    if (!into.row(row.key)) into.rows.push_back(row);
}

config::Row block_row(const std::string& key, std::shared_ptr<Table> nested) {
  config::Row row;
  row.key = key, row.type = "block", row.nested = std::move(nested);
  return row;
}

std::shared_ptr<Table> any_reader() {
  auto all = std::make_shared<Table>();
  config::Row type;
  type.key = "readerType";
  for (const ReaderType& r : reader_types()) {
    type.type += (type.type.empty() ? "" : "|") + r.name;
    merge(*all, *config::tabulate(r.describe));
  }
  all->rows.insert(all->rows.begin(), type);
  return all;
}

// Of a command block, whatever its action.
std::shared_ptr<Table> any_command() {
  auto all = std::make_shared<Table>();
  config::Row action;
  action.key = "action";
  for (const ActionEntry& entry : action_table()) {
    action.type += (action.type.empty() ? "" : "|") + entry.names[0];
    merge(*all, *config::tabulate(entry.describe));
  }
  all->rows.insert(all->rows.begin(), action);
  all->rows.push_back(block_row("SGD", config::tabulate([](config::Fields& f) { SgdOptions().describe(f); })));
  const auto reader = any_reader();
  for (const char* key : {"reader", "cvReader"}) all->rows.push_back(block_row(key, reader));
  for (const Topic& t : topics())
    if (t.name.ends_with("NetworkBuilder")) all->rows.push_back(block_row(t.name, config::tabulate(t.describe)));
  return all;
}

// The blocks that `words` define as commands: those of the config files among them.
Words command_names(const Words& words) {
  std::vector<const char*> argv{"trainer"};
  for (std::size_t i = 0; i + 1 < words.size(); ++i) argv.push_back(words[i].c_str());
  Words names{"Train"};
  try {
    const config::CommandLine line = config::parse_command_line(static_cast<int>(argv.size()), argv.data());
    for (const std::string& key : line.config.keys())
      if (line.config.is_block(key) && !config::equal_keys(key, "Train")) names.push_back(key);
  } catch (const std::exception&) {
    // nothing is known of a command line with mistakes
  }
  return names;
}

// Keys of a table as they are begun, or the values of the key that is written already.
void add_keys(const Table& table, const std::string& before, const std::string& begun, Words& found) {
  if (const auto equals = begun.find('='); equals != begun.npos) {
    const config::Row* row = table.row(begun.substr(0, equals));
    if (!row || row->nested) return;
    std::string words = row->type == "bool" ? "true|false" : row->type;
    for (std::size_t at = 0; words.find('|') != words.npos && at <= words.size();) {
      const auto end = std::min(words.find('|', at), words.size());
      found.push_back(before + begun.substr(0, equals + 1) + words.substr(at, end - at));
      at = end + 1;
    }
    return;
  }
  for (const config::Row& row : table.rows) found.push_back(before + row.key + (row.nested ? "=[" : "="));
}

// "Train=[SGD=[max": the table of the innermost open block; null if it is not known.
const Table* innermost(const std::string& word, const Table& top, std::size_t& begun) {
  std::vector<const Table*> open{&top};
  begun = 0;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const char c = word[i];
    if (c == '[' || c == '{') {
      std::string key = word.substr(begun, i - begun);
      while (!key.empty() && (key.back() == '=' || key.back() == ' ')) key.pop_back();
      const config::Row* row = open.back() ? open.back()->row(key) : nullptr;
      open.push_back(row ? row->nested.get() : nullptr);
    } else if ((c == ']' || c == '}') && open.size() > 1) {
      open.pop_back();
    } else if (c != ';' && c != ',') {
      continue;
    }
    begun = i + 1;
  }
  return open.back();
}

void add_files(const std::string& before, const std::string& begun, Words& found) {
  const auto slash = begun.rfind('/');
  const std::string folder = slash == begun.npos ? "" : begun.substr(0, slash + 1);
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder.empty() ? "." : folder, failed)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with('.') && !begun.substr(folder.size()).starts_with('.')) continue;
    found.push_back(before + folder + name + (entry.is_directory(failed) ? "/" : ""));
  }
}

void add_settings(const Words& words, const std::string& word, Words& found) {
  Table top = *config::tabulate([](config::Fields& f) { config::TopLevel().describe(f); });
  const auto command = any_command();
  for (const std::string& name : command_names(words)) top.rows.push_back(block_row(name, command));
  for (const char* key : {"configFile", "currentDirectory", "help"}) {
    config::Row row;
    row.key = key;
    top.rows.push_back(row);
  }
  std::size_t begun = 0;
  if (const Table* const table = innermost(word, top, begun))
    add_keys(*table, word.substr(0, begun), word.substr(begun), found);
}

// "-n --hosts": without the "=" of those that a file follows.
Words options_of(const CommandHelp& command) {
  Words options = model_command_options(command.name);
  std::istringstream in(command.options);
  for (std::string option; in >> option;) options.push_back(option.substr(0, option.find('=')));
  options.emplace_back("--help");
  return options;
}

// The launcher passes flags of the trainer on.
Words options_and_flags(const CommandHelp& command) {
  Words options = options_of(command);
  if (std::string_view(command.name) == "launch")
    for (const auto& [flag, help] : config::flags()) options.push_back(flag);
  return options;
}

bool takes_file(const CommandHelp& command, const std::string& option) {
  return fmt::format(" {} ", command.options).find(fmt::format(" {}= ", option)) != std::string::npos;
}

// What may follow a command; false where settings may.
bool add_words_of(const CommandHelp& command, const Words& words, const std::string& word, Words& found) {
  static const std::set<std::string> files = {"diff", "export", "import", "info", "new", "predict", "report", "sweep"};
  const std::string name = command.name, option = word.substr(0, word.find('='));
  if (takes_file(command, words[words.size() - 2]))
    add_files("", word, found);
  else if (option.size() < word.size() && takes_file(command, option))
    add_files(option + "=", word.substr(option.size() + 1), found);
  else if (word.starts_with('-'))
    found = options_and_flags(command);
  else if (name == "new" && words.size() == 2)
    found = {"mnist", "images", "text", "sequence", "table"};
  else if (name == "completion" && words.size() == 2)
    found = {"bash", "zsh", "fish"};
  else if (files.contains(name))
    add_files("", word, found);
  else
    return false;
  return true;
}

// Flags and settings of a run; the name of a command if it is the first word.
void add_words_of_run(const Words& words, const std::string& word, Words& found) {
  const std::string lower = config::to_lower(word);
  if (words.size() > 1 && words[words.size() - 2] == "--write-under") {
    add_files("", word, found);
  } else if (word.starts_with('-')) {
    for (const auto& [flag, help] : config::flags())
      if (flag.starts_with("--")) found.push_back(flag);
  } else if (lower.starts_with("configfile=")) {
    const auto begin = std::max(word.find('='), word.rfind('+') == word.npos ? 0 : word.rfind('+')) + 1;
    add_files(word.substr(0, begin), word.substr(begin), found);
  } else if (lower.starts_with("help=") || (words.size() == 2 && words[0] == "help")) {
    const std::string before = lower.starts_with("help=") ? "help=" : "";
    for (const CommandHelp& c : command_list()) found.push_back(before + c.name);
    for (const Topic& t : topics()) found.push_back(before + t.name);
    for (const KeyHelp& k : all_keys()) found.push_back(before + k.key);
  } else {
    if (words.size() == 1)
      for (const CommandHelp& c : command_list()) found.emplace_back(c.name);
    add_settings(words, word, found);
  }
}

std::string usage_of_completion() {
  return "usage: trainer completion bash|zsh|fish\nPrints a script that completes words of trainer in that shell; its "
         "first line says where it belongs.\n";
}

// In roff a line that begins with . or ' is a command, and \ escapes.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if ((out.empty() || out.back() == '\n') && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out;
}

void man_rows(const Table& table, std::string& out) {
  for (const config::Row& row : table.rows) {
    out += fmt::format(".TP\n.B {}\n({}) {}\n", roff(row.key), roff(config::type_text(row)), roff(row.doc));
    if (!row.nested) continue;
    out += ".RS\n";
    man_rows(*row.nested, out);
    out += ".RE\n";
  }
}

std::string man_page() {
  std::string out = fmt::format(
      ".TH TRAINER 1 \"\" \"Tutti {}\" \"User Commands\"\n.SH NAME\ntrainer \\- trains neural "
      "networks on many workers at once\n.SH SYNOPSIS\n",
      TUTTI_VERSION);
  out +=
      ".nf\n[mpiexec \\-n RANKS] trainer configFile=FILE[+FILE...] [KEY=VALUE | BLOCK=[KEY=VALUE;...]]... [FLAG]...\n";
  for (const CommandHelp& c : command_list()) out += fmt::format("trainer {} {}\n", c.name, roff(c.words));
  out += ".fi\n.SH COMMANDS\n";
  for (const CommandHelp& c : command_list())
    out += fmt::format(".TP\n.B trainer {} {}\n{}.\nOptions: {}\n", c.name, roff(c.words), roff(c.help),
                       roff(fmt::format("{}", fmt::join(options_of(c), ", "))));
  out += ".SH FLAGS\n";
  for (const auto& [flag, help] : config::flags()) out += fmt::format(".TP\n.B {}\n{}\n", roff(flag), roff(help));
  out += ".SH SETTINGS\nBlocks and their keys, with types and defaults.\n";
  for (const Topic& t : topics()) {
    out += fmt::format(".SS {}\n{}\n.PP\n", roff(t.name), roff(t.help));
    man_rows(*config::tabulate(t.describe), out);
  }
  out +=
      ".SH EXIT STATUS\n.TP\n.B 0\nfinished\n.TP\n.B 1\nfailed\n.TP\n.B 2\na mistake in the configuration\n.TP\n.B "
      "75\nstopped by a signal, state saved; starting again goes on\n.TP\n.B 80 to 87\nranks that died or hung, NaN, "
      "damaged messages: docs/faults.md\n.SH SEE ALSO\nmpiexec(1), the pages in docs/\n";
  return out;
}

}  // namespace

Words completions(const Words& words) {
  std::string word = words.empty() ? "" : words.back();
  if (word.starts_with('\'') || word.starts_with('"')) word.erase(0, 1);
  Words found;
  const auto command = std::ranges::find_if(
      command_list(), [&](const CommandHelp& c) { return words.size() > 1 && words[0] == c.name; });
  if (command == command_list().end() || !add_words_of(*command, words, word, found))
    add_words_of_run(words, word, found);
  const std::string wanted = config::to_lower(word);
  std::erase_if(found, [&](const std::string& f) { return !config::to_lower(f).starts_with(wanted); });
  std::set<std::string> seen;
  std::erase_if(found, [&](const std::string& f) { return !seen.insert(f).second; });
  return found;
}

const std::vector<CommandHelp>& command_list() {
  static const std::vector<CommandHelp> all = {
      {"new", "KIND DATA", "writes a config for your data: mnist, images, text, sequence or table",
       "--name --label --force"},
      {"launch", "-n RANKS ...", "starts ranks with mpiexec, and again after failures",
       "-n --hosts --hostfile= --restarts --min-ranks --mpiexec= --agent="},
      {"plan", "-n RANKS ...", "times every parallel method on these ranks and chooses",
       "-n --hosts --hostfile= --mpiexec= --agent= --json="},
      {"simulate", "--ranks LIST ...", "computes what every method reaches on other numbers of ranks and links",
       "--ranks --links --latency --per-rank --shared-cores --json= -n --hosts --hostfile= --mpiexec= --agent="},
      {"doctor", "[--hosts A,B]", "looks for what stops or slows runs on these hosts",
       "-n --hosts --hostfile= --mpiexec= --agent="},
      {"sweep", "FILE.yaml", "trains one config with many settings", "--slurm --table"},
      {"report", "DIR...", "writes a page with the curves of one or several runs", "--output= --title"},
      {"diff", "A B", "compares two configs, or a config with the settings of a model"},
      {"info", "MODEL", "shows nodes, parameters and statistics of a model"},
      {"import", "FILE OUT", "writes a model of CNTK, or weights from safetensors or npz, as a model"},
      {"export", "MODEL ...", "writes a model as ONNX, safetensors or npz"},
      {"predict", "MODEL ...", "computes outputs for images, CTF or npy files"},
      {"help", "NAME", "explains a block, a key or a function"},
      {"completion", "bash|zsh|fish", "prints a script that completes words in a shell"},
      {"man", "", "prints the manual page"},
  };
  return all;
}

int run_completion(int argc, const char* const* argv) {
  const Words words(argv, argv + argc);
  const std::string shell = words.empty() ? "" : words[0];
  if (shell == "words") {
    for (const std::string& w : completions({words.begin() + 1, words.end()})) std::puts(w.c_str());
    return 0;
  }
  const char* const script = shell == "bash" ? kBash : shell == "zsh" ? kZsh : shell == "fish" ? kFish : nullptr;
  if (script) return std::fputs(script, stdout), 0;
  const bool help = shell == "--help" || shell == "-h";
  if (!help) std::fprintf(stderr, "completion: there is no script for '%s'\nfix: ", shell.c_str());
  std::fputs(usage_of_completion().c_str(), help ? stdout : stderr);
  return help ? 0 : static_cast<int>(kWrongConfiguration);
}

int run_man(int, const char* const*) { return std::fputs(man_page().c_str(), stdout), 0; }

}  // namespace tutti::actions
