// SPDX-License-Identifier: Apache-2.0
// text.h -- config texts before parsing: files with comments blanked out, the command line, includes. Blanking keeps
// every offset, so any range can be shown as the user wrote it.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/config.h"
#include "tutti/error.h"

namespace tutti::config {

struct Text;
using TextPtr = std::shared_ptr<const Text>;

struct Text {
  std::shared_ptr<const Source> source;
  std::string clean;                                     // source->text with comments blanked, same length
  std::map<std::size_t, std::vector<TextPtr>> includes;  // by the offset of the line `include=...`
};

// A part of a text: [begin, end).
struct TextRange {
  TextPtr text;
  std::size_t begin = 0, end = 0;

  std::string_view view() const { return std::string_view(text->clean).substr(begin, end - begin); }
  SourcePos where() const { return {text->source, begin, end - begin}; }
  TextRange part(std::size_t from, std::size_t to) const { return {text, from, to}; }
};

bool is_blank(char c);  // blank, tab or line end
TextRange trim(TextRange);
std::vector<TextRange> split_files(const TextRange&);  // of a+b, trimmed
std::string to_lower(std::string_view);
bool equal_keys(std::string_view a, std::string_view b);  // keys are case-insensitive
std::string blank_comments(std::string text);

// Reads config files and everything they include, each file once. Adds mistakes to `problems`.
class Loader {
 public:
  Loader(Problems& problems, Notices& notices) : problems_(problems), notices_(notices) {}

  TextPtr file(const std::string& path, const SourcePos& named_at);  // null if it cannot be read
  TextPtr text(std::string name, std::string content);               // also resolves the text's includes
  const std::vector<std::string>& directories() const { return directories_; }

 private:
  TextPtr finish(std::string name, std::string content, const std::string& directory);
  void resolve_includes(Text&, const std::string& directory);
  TextPtr include(const std::string& path, const SourcePos& named_at, const std::string& directory);

  Problems& problems_;
  Notices& notices_;
  std::set<std::string> read_;            // canonical paths
  std::vector<std::string> active_;       // the files being read now, outermost first
  std::vector<std::string> directories_;  // of the files read, in order
};

}  // namespace tutti::config
