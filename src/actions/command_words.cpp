// SPDX-License-Identifier: Apache-2.0
#include "actions/command_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>

#include "tutti/error.h"

namespace tutti::actions {
namespace {

std::string usage_line(const CommandForm& form) {
  return fmt::format("trainer {} {}{}", form.name, form.files, form.options.empty() ? "" : " [OPTION]...");
}

class WordsReader {
 public:
  WordsReader(const std::vector<std::string>& words, const CommandForm& form) : words_(words), form_(form) {}

  CommandWords run() {
    CommandWords read;
    for (at_ = 1; at_ < words_.size(); ++at_) {
      if (words_[at_].starts_with("-") && words_[at_] != "-")
        option(read);
      else
        read.files.push_back(words_[at_]);
    }
    constexpr const char* counts[] = {"no file", "one file", "two files"};
    if (read.files.size() != form_.file_count)
      throw ConfigError({}, fmt::format("'{}' takes {}", form_.name, counts[form_.file_count]), usage_line(form_));
    return read;
  }

 private:
  void option(CommandWords& read) {
    const std::string& word = words_[at_];
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const auto known = std::ranges::find(form_.options, name, &CommandOption::name);
    if (known == form_.options.end()) {
      std::vector<std::string> names;
      for (const auto& o : form_.options) names.push_back(o.name);
      fail(word, fmt::format("'{}' has no option '{}'", form_.name, name),
           did_you_mean(name, names, fmt::format("trainer {} --help lists the options", form_.name)));
    }
    std::string value;
    if (known->value.empty()) {
      if (equals != word.npos) fail(word, fmt::format("'{}' takes no value", name), usage_line(form_));
    } else if (equals != word.npos) {
      value = word.substr(equals + 1);
    } else if (at_ + 1 < words_.size()) {
      value = words_[++at_];
    }
    if (!known->value.empty() && value.empty())
      fail(word, fmt::format("'{}' needs a value", name), fmt::format("{} {}", name, known->value));
    auto& values = read.options[name];
    if (!values.empty() && !known->repeated) fail(word, fmt::format("'{}' is given twice", name), "give it once");
    values.push_back(std::move(value));
  }

  // Shows the word on its command line.
  [[noreturn]] void fail(const std::string& word, std::string message, std::string fix) const {
    const auto source =
        std::make_shared<Source>(Source{"<command line>", fmt::format("{}", fmt::join(words_, " ")), {}});
    const std::size_t at = source->text.find(" " + word) + 1;
    throw ConfigError({source, at, word.size()}, std::move(message), std::move(fix));
  }

  const std::vector<std::string>& words_;
  const CommandForm& form_;
  std::size_t at_ = 0;
};

}  // namespace

std::string CommandWords::value(const std::string& name, const std::string& otherwise) const {
  const auto found = options.find(name);
  return found == options.end() ? otherwise : found->second.front();
}

std::vector<std::string> CommandWords::values(const std::string& name) const {
  const auto found = options.find(name);
  return found == options.end() ? std::vector<std::string>() : found->second;
}

std::int64_t whole_number(const CommandWords& words, const std::string& name, std::int64_t least,
                          std::int64_t otherwise) {
  if (!words.has(name)) return otherwise;
  const std::string text = words.value(name);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least)
    throw ConfigError({}, fmt::format("{} = '{}' is not a whole number from {}", name, text, least),
                      fmt::format("{} {}", name, std::max<std::int64_t>(least, 1)));
  return value;
}

std::vector<std::string> listed_names(const std::string& text) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    if (end > at) names.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

CommandWords read_words(const std::vector<std::string>& words, const CommandForm& form) {
  return WordsReader(words, form).run();
}

void refuse_same_file(const std::string& from, const std::string& to) {
  std::error_code unknown;
  if (std::filesystem::equivalent(from, to, unknown))
    throw Error(fmt::format("'{}' and '{}' are the same file\nfix: give the new file another name", from, to));
}

std::string help_text(const CommandForm& form) {
  std::string text = fmt::format("usage: {}\n{}\n", usage_line(form), form.help);
  for (const auto& o : form.options)
    text += fmt::format("  {:<24} {}\n", o.value.empty() ? o.name : o.name + " " + o.value, o.help);
  return text;
}

}  // namespace tutti::actions
