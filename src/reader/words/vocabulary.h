// SPDX-License-Identifier: Apache-2.0
// vocabulary.h -- words and their numbers, for the readers of text. Words may be grouped into classes, which the
// criterion of class-based language models needs: the words of a class have numbers in a row.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tutti::reader {

class Vocabulary {
 public:
  // The words of class c are [first, last).
  struct WordClass {
    std::uint32_t first = 0, last = 0;
  };

  // Lines of number, count, word, class, as the action writeWordAndClass makes them. Throws ConfigError.
  static Vocabulary from_class_file(const std::string& path);
  // A word per line, numbered from 0; with classes "word class".
  static Vocabulary from_word_list(const std::string& path, bool classes);

  std::size_t size() const { return classes_of_.size(); }
  std::size_t classes() const { return classes_.size(); }
  std::optional<std::uint32_t> find(std::string_view word) const;
  std::uint32_t class_of(std::uint32_t word) const { return classes_of_[word]; }
  const WordClass& word_class(std::uint32_t c) const { return classes_[c]; }
  // Words are looked up as those that the file maps them to ("word other" a line), or as `unknown`.
  void map_words(const std::string& path, const std::string& unknown);

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
  };
  void add_class(std::uint32_t word, std::uint32_t c, const std::string& path, std::size_t line);

  std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>> numbers_;
  std::vector<std::uint32_t> classes_of_;  // of each word; 0 where there are none
  std::vector<WordClass> classes_;
};

}  // namespace tutti::reader
