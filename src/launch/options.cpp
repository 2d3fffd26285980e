// SPDX-License-Identifier: Apache-2.0
#include "launch/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/trimmed.h"
#include "tutti/error.h"

namespace tutti::launch {
namespace {

const std::vector<std::string> kWords = {"-n",          "--hosts",   "--hostfile", "--restarts",
                                         "--min-ranks", "--mpiexec", "--agent"};
// Of the trainer: they may be anywhere (config::flags()).
const std::vector<std::string> kFlags = {"--version", "--check",       "--dry-run", "-v",
                                         "--verbose", "--dump-config", "--strict"};

bool is_number(const std::string& text, int& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

int number(const std::string& what, const std::string& text, int least, const std::string& fix) {
  int value = 0;
  if (!is_number(text, value) || value < least)
    throw Error(fmt::format("launch: {} takes a number, {} or more, not '{}'\nfix: {}", what, least, text, fix));
  return value;
}

int number(const std::string& word, const std::string& text, int least) {
  return number(word, text, least, fmt::format("{} {}", word, std::max(least, 4)));
}

// "a:4", or "a" for one rank. `where` and `fix`: for messages.
Host parse_host(const std::string& text, const std::string& where, const char* fix) {
  const auto first = text.find(':'), colon = first == text.rfind(':') ? first : text.npos;  // IPv6 has several
  Host host{std::string(trimmed(text.substr(0, colon)))};
  if (host.name.empty() || host.name.starts_with('-'))
    throw Error(fmt::format("launch: {} has a host without a name: '{}'\nfix: {}", where, text, fix));
  if (host.name.find_first_of(kBlanks) != host.name.npos)
    throw Error(
        fmt::format("launch: {}: '{}' is no name of a host: it has a blank inside\nfix: {}", where, host.name, fix));
  if (colon != text.npos)
    host.slots =
        number(fmt::format("{}: '{}'", where, host.name), std::string(trimmed(text.substr(colon + 1))), 1, fix);
  return host;
}

// Reads "slots=4"; Open MPI's limit for --oversubscribe is not asked for.
void read_slots(const std::string& word, const std::string& where, Host& host) {
  if (word.starts_with("max_slots=") || word.starts_with("max-slots=")) return;
  if (!word.starts_with("slots="))
    throw Error(fmt::format("launch: {}: '{}' is not understood\nfix: lines such as 'node1 slots=4'", where, word));
  host.slots = number(where + ": slots", word.substr(6), 1, "lines such as 'node1 slots=4'");
}

// The words of a line, with "slots = 4" and "node1 : 4" as one word.
std::vector<std::string> words_of_line(const std::string& line) {
  std::stringstream in(line.substr(0, line.find('#')));
  std::vector<std::string> words;
  for (std::string word; in >> word;) {
    const bool slots = words.size() > 1 && (word.starts_with('=') || words.back().ends_with('='));
    const bool host =
        words.size() == 1 && (word.starts_with(':') || (words[0].ends_with(':') && !words[0].ends_with("::")));  // IPv6
    if (slots || host)
      words.back() += word;
    else
      words.push_back(word);
  }
  return words;
}

// The words one after the other; "--word=value" is two.
struct Words {
  explicit Words(const std::vector<std::string>& all) : all_(all) {}
  bool more() const { return at_ < all_.size(); }
  bool has_value() const { return inline_.has_value(); }
  std::string next() {
    std::string word = all_[at_++];
    inline_.reset();
    if (const auto equals = word.find('='); word.starts_with("--") && equals != word.npos)
      inline_ = word.substr(equals + 1), word.resize(equals);
    return word;
  }
  std::string value(const std::string& word) {
    const std::string text = inline_ ? *inline_ : more() ? all_[at_++] : "";
    if (text.empty()) throw Error(fmt::format("launch: {} needs a value\nfix: trainer launch --help", word));
    return text;
  }
  // A number, if one follows.
  int number_or(const std::string& word, int otherwise) {
    int value = 0;
    if (inline_) return number(word, *inline_, 0);
    if (!more() || !is_number(all_[at_], value)) return otherwise;
    ++at_;
    return number(word, all_[at_ - 1], 0);
  }

  // The word that next() returned, with its value.
  const std::string& as_written() const { return all_[at_ - 1]; }
  // It and all that follow.
  std::vector<std::string> rest() {
    const auto first = all_.begin() + static_cast<std::ptrdiff_t>(at_) - 1;
    at_ = all_.size();
    return {first, all_.end()};
  }

 private:
  const std::vector<std::string>& all_;
  std::size_t at_ = 0;
  std::optional<std::string> inline_;  // what follows "="
};

}  // namespace

std::vector<Host> parse_hosts(const std::string& text) {
  std::vector<Host> hosts;
  std::stringstream in(text);
  for (std::string part; std::getline(in, part, ',');)
    hosts.push_back(parse_host(part, "--hosts", "--hosts node1:4,node2:4"));
  return hosts;
}

std::vector<Host> read_hostfile(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw Error(fmt::format("launch: cannot read the hostfile '{}'\nfix: check the path", path));
  std::vector<Host> hosts;
  std::string line;
  for (int number_of_line = 1; std::getline(in, line); ++number_of_line) {
    const std::vector<std::string> words = words_of_line(line);
    if (words.empty()) continue;
    const std::string where = fmt::format("{}:{}", path, number_of_line);
    Host host = parse_host(words[0], where, "lines such as 'node1 slots=4'");
    for (std::size_t i = 1; i < words.size(); ++i) read_slots(words[i], where, host);
    hosts.push_back(std::move(host));
  }
  if (hosts.empty())
    throw Error(fmt::format("launch: the hostfile '{}' names no host\nfix: lines such as 'node1 slots=4'", path));
  return hosts;
}

std::string to_string(const std::vector<Host>& hosts) {
  std::string text;
  for (const Host& h : hosts) text += fmt::format("{}{}:{}", text.empty() ? "" : ",", h.name, h.slots);
  return text;
}

int default_ranks(int otherwise) {
  const char* const tasks = std::getenv("SLURM_NTASKS");
  return tasks ? std::max(1, std::atoi(tasks)) : otherwise;
}

void refuse_restarts(const Options& o) {
  for (const auto& [word, given] : {std::pair("--restarts", o.restarts > 0), std::pair("--min-ranks", o.min_ranks > 0)})
    if (given)
      throw Error(fmt::format("launch: {} has no effect, as nothing is started again here\nfix: leave it out", word));
}

Options parse_words(const std::vector<std::string>& all, bool flags_of_trainer) {
  Options o;
  std::vector<std::string> flags;
  Words words(all);
  while (words.more()) {
    const std::string word = words.next();
    if (word == "-n" || word == "-np" || word == "--ranks")
      o.ranks = number(word, words.value(word), 1);
    else if (word == "--hosts")
      o.hosts = parse_hosts(words.value(word));
    else if (word == "--hostfile")
      o.hosts = read_hostfile(words.value(word));
    else if (word == "--restarts")
      o.restarts = words.number_or(word, Options::unlimited);
    else if (word == "--min-ranks")
      o.min_ranks = number(word, words.value(word), 1);
    else if (word == "--mpiexec")
      o.mpiexec = words.value(word);
    else if (word == "--agent")
      o.agent = words.value(word);
    else if (word == "--answer")
      o.answer = words.value(word);
    else if (word == "--help" || word == "-h")
      o.help = true;
    else if (flags_of_trainer && !words.has_value() && std::ranges::find(kFlags, word) != kFlags.end())
      flags.push_back(word);
    else if (flags_of_trainer && word == "--write-under")
      flags.insert(flags.end(), {word, words.value(word)});
    else if (word.starts_with("-") && o.arguments.empty())
      throw Error(
          fmt::format("launch: there is no '{}'\nfix: {}", word, did_you_mean(word, kWords, "trainer launch --help")));
    else if (o.arguments.empty() && word.find('=') == word.npos)
      o.arguments = words.rest();  // a model command takes the rest: export MODEL --onnx F
    else
      o.arguments.push_back(words.as_written());
  }
  o.arguments.insert(o.arguments.begin(), flags.begin(), flags.end());
  int slots = 0;
  for (const Host& h : o.hosts) slots += h.slots;
  if (!o.hosts.empty() && o.ranks > slots)
    throw Error(fmt::format("launch: -n {} ranks do not fit on {} ({} slots)\nfix: -n {}, or more ranks per host (a:4)",
                            o.ranks, to_string(o.hosts), slots, slots));
  if (o.ranks == 0) o.ranks = slots;
  check_min_ranks(o);
  return o;
}

Options parse(const std::vector<std::string>& all, bool flags_of_trainer) {
  Options o = parse_words(all, flags_of_trainer);
  if (!o.help && o.answer.empty() && o.arguments.empty())
    throw Error("launch: there is nothing to start\nfix: trainer launch -n 4 configFile=FILE");
  return o;
}

std::string in_words_of(const std::string& command, std::string message) {
  constexpr std::string_view launch = "launch: ", trainer_launch = "trainer launch";
  if (!message.starts_with(launch)) return message;
  message.replace(0, launch.size(), command + ": ");
  for (auto at = message.find(trainer_launch); at != message.npos; at = message.find(trainer_launch))
    message.replace(at, trainer_launch.size(), "trainer " + command);
  return message;
}

void check_min_ranks(const Options& o) {
  if (o.min_ranks > 0 && o.ranks > 0 && o.min_ranks > o.ranks)
    throw Error(fmt::format("launch: --min-ranks {} is more than {} rank{}\nfix: --min-ranks {}, or more ranks with -n",
                            o.min_ranks, o.ranks, o.ranks == 1 ? "" : "s", o.ranks));
}

std::string usage() {
  return R"(usage: trainer launch [-n RANKS] [--hosts A:4,B:4 | --hostfile FILE] [--restarts [N]] [--min-ranks K] configFile=FILE ...

Starts the trainer on several ranks with mpiexec, prints the line it uses, passes signals on, and starts again after a failure.
  -n RANKS         ranks; by default a rank per slot of the hosts, or per task of the Slurm allocation
  --hosts A:4,B:4  hosts with their numbers of ranks; --hostfile FILE reads lines such as "A slots=4"
  --restarts [N]   start again from the last checkpoint after a failure, up to N times (without N as often as needed)
  --min-ranks K    go on with fewer ranks, at least K, while a host is away, and take it back when it returns
  --mpiexec FILE   another mpiexec; --agent PROGRAM another remote shell than ssh (called as PROGRAM HOST COMMAND...)
SIGTERM, SIGINT and SIGUSR1 let the run make a checkpoint and end (exit code 75); a second one ends it at once.
)";
}

}  // namespace tutti::launch
