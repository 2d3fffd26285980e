// SPDX-License-Identifier: Apache-2.0
// Word lists. Faults in them end the run, because nothing read with a wrong list can be right.
#include "reader/words/vocabulary.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "reader/fault_budget.h"
#include "reader/lines.h"

namespace tutti::reader {
namespace {

[[noreturn]] void wrong_line(const std::string& path, std::size_t number, std::string_view line, std::string message,
                             std::string fix) {
  throw ConfigError(line_place(path, number, line, 0, line.size()), std::move(message), std::move(fix));
}

// Calls f(line number, line, words) for every line that has words.
template <class F>
void each_entry(const std::string& path, const F& f) {
  std::vector<std::string_view> words;
  const bool read = each_line(path, [&](std::size_t number, const std::string& line) {
    split_words(line, words);
    f(number, line, words);
  });
  if (!read)
    throw ConfigError({}, fmt::format("the word list '{}' cannot be read: {}", path, std::strerror(errno)), "");
}

std::optional<std::uint32_t> whole_number(std::string_view text) {
  std::uint32_t n = 0;
  if (!read_whole(text, n)) return {};
  return n;
}

}  // namespace

Vocabulary Vocabulary::from_class_file(const std::string& path) {
  struct Entry {
    std::uint32_t word_class;
    std::size_t line;
  };
  Vocabulary v;
  std::vector<std::optional<Entry>> entries;
  each_entry(path, [&](std::size_t number, const std::string& line, const auto& words) {
    const auto index = words.size() == 4 ? whole_number(words[0]) : std::nullopt;
    const auto c = words.size() == 4 ? whole_number(words[3]) : std::nullopt;
    if (!index || !c)
      wrong_line(path, number, line, "the line is not number, count, word and class of the word",
                 "the action writeWordAndClass makes such files");
    constexpr std::uint32_t most_words = 100'000'000;
    if (*index >= most_words)
      wrong_line(path, number, line, fmt::format("{} is no number of a word", *index), "words are numbered from 0");
    if (*index >= entries.size()) entries.resize(*index + 1);
    if (entries[*index] || !v.numbers_.emplace(words[2], *index).second)
      wrong_line(path, number, line, fmt::format("number {} or '{}' appears a second time", *index, words[2]),
                 "every word has one line");
    entries[*index] = Entry{*c, number};
  });
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (!entries[i])
      throw ConfigError({}, fmt::format("'{}' has no word with the number {}", path, i),
                        fmt::format("numbers go from 0 to {} without gaps", entries.size() - 1));
    v.classes_of_.push_back(entries[i]->word_class);
    v.add_class(static_cast<std::uint32_t>(i), entries[i]->word_class, path, entries[i]->line);
  }
  if (v.size() == 0) throw ConfigError({}, fmt::format("'{}' has no words", path), "");
  return v;
}

Vocabulary Vocabulary::from_word_list(const std::string& path, bool classes) {
  Vocabulary v;
  each_entry(path, [&](std::size_t number, const std::string& line, const auto& words) {
    const auto index = static_cast<std::uint32_t>(v.classes_of_.size());
    std::optional<std::uint32_t> c = 0;
    if (classes) {
      c = words.size() == 2 ? whole_number(words[1]) : std::nullopt;
      if (!c)
        wrong_line(path, number, line, "the line is not a word and the number of its class", "classes count from 0");
    }
    // Without classes the line is the word, blanks within it included.
    const std::string_view word = classes ? words[0] : trimmed(line);
    if (!v.numbers_.emplace(word, index).second)
      wrong_line(path, number, line, fmt::format("'{}' appears a second time", word), "every word has one line");
    v.classes_of_.push_back(*c);
    if (classes) v.add_class(index, *c, path, number);
  });
  if (v.size() == 0) throw ConfigError({}, fmt::format("'{}' has no words", path), "it has one word per line");
  return v;
}

void Vocabulary::add_class(std::uint32_t word, std::uint32_t c, const std::string& path, std::size_t line) {
  constexpr std::uint32_t most_classes = 1'000'000;
  if (c + 1 < classes_.size() || c >= most_classes)
    throw ConfigError({},
                      fmt::format("{}:{}: the word with number {} has class {}, the one before it class {}", path, line,
                                  word, c, classes_.empty() ? 0 : classes_.size() - 1),
                      "words are sorted by class, and class numbers are small");
  while (classes_.size() <= c) classes_.push_back({word, word});  // a class may have no word
  classes_.back().last = word + 1;
}

std::optional<std::uint32_t> Vocabulary::find(std::string_view word) const {
  const auto found = numbers_.find(word);
  if (found == numbers_.end()) return {};
  return found->second;
}

void Vocabulary::map_words(const std::string& path, const std::string& unknown) {
  std::unordered_map<std::string, std::string> targets;
  each_entry(path, [&](std::size_t number, const std::string& line, const auto& words) {
    if (words.size() != 2)
      wrong_line(path, number, line, "the line is not a word and the word that it becomes", "two words per line");
    if (!find(words[1]))
      wrong_line(path, number, line, fmt::format("'{}' is not in the word list", words[1]), "map to words of the list");
    targets[std::string(words[0])] = words[1];
  });
  const auto nothing = find(unknown);
  auto mapped = numbers_;
  for (auto& [word, number] : mapped) {
    const auto target = targets.find(word);
    if (target == targets.end() && !nothing)
      throw ConfigError(
          {}, fmt::format("'{}' does not say what '{}' becomes, and there is no word '{}'", path, word, unknown),
          "unk = \"...\" names the word for all others");
    number = target == targets.end() ? *nothing : *find(target->second);
  }
  numbers_ = std::move(mapped);
}

}  // namespace tutti::reader
