// SPDX-License-Identifier: Apache-2.0
// Loads config texts: reads files, rejects files that are not text, blanks comments, follows `include=a+b` lines.
#include "config/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/utf8.h"

namespace tutti::config {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t largest_file = 16u << 20;  // a data file given as configFile= should not be swallowed whole

std::string canonical(const std::string& path) {
  std::error_code failed;
  const fs::path p = fs::weakly_canonical(path, failed);
  return failed ? path : p.string();
}

std::string directory_of(const std::string& path) {
  const std::string d = fs::path(path).parent_path().string();
  return d.empty() ? "." : d;
}

// The content, or what is wrong with it.
std::string read_all(const std::string& path, std::string& content) {
  std::error_code failed;
  const fs::file_status status = fs::status(path, failed);
  if (!fs::exists(status)) return fmt::format("config file '{}' does not exist", path);
  if (fs::is_directory(status)) return fmt::format("'{}' is a directory, not a config file", path);
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) return fmt::format("cannot open config file '{}': {}", path, std::strerror(errno));
  constexpr std::size_t block = 1 << 16;
  for (std::size_t size = 0; in && size <= largest_file; size += static_cast<std::size_t>(in.gcount())) {
    content.resize(size + block);
    in.read(content.data() + size, block);
    content.resize(size + static_cast<std::size_t>(in.gcount()));
  }
  if (in.bad()) return fmt::format("cannot read config file '{}': {}", path, std::strerror(errno));
  if (content.size() > largest_file)
    return fmt::format("'{}' is larger than {} MiB, too large for a config file", path, largest_file >> 20);
  return {};
}

bool is_control(char c) {
  const auto u = static_cast<unsigned char>(c);
  return (u < 0x20 && c != '\n' && c != '\r' && c != '\t' && c != '\f' && c != '\v') || u == 0x7f;
}

bool starts_include(std::string_view line) {
  constexpr std::string_view word = "include";
  if (line.size() < word.size() || !equal_keys(line.substr(0, word.size()), word)) return false;
  const std::size_t next = line.find_first_not_of(" \t", word.size());
  return next != std::string_view::npos && line[next] == '=';
}

}  // namespace

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v'; }

TextRange trim(TextRange s) {
  while (s.begin < s.end && is_blank(s.text->clean[s.begin])) ++s.begin;
  while (s.end > s.begin && is_blank(s.text->clean[s.end - 1])) --s.end;
  return s;
}

std::vector<TextRange> split_files(const TextRange& list) {
  std::vector<TextRange> files;
  for (std::size_t from = list.begin; from <= list.end;) {
    const std::size_t to = std::min(list.text->clean.find('+', from), list.end);
    files.push_back(trim(list.part(from, to)));
    from = to + 1;
  }
  return files;
}

std::string to_lower(std::string_view s) {
  std::string r(s);
  std::transform(r.begin(), r.end(), r.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return r;
}

bool equal_keys(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](unsigned char x, unsigned char y) {
           return std::tolower(x) == std::tolower(y);
         });
}

// A line whose first character is '#' is a comment; else only its first '#' counts, and only behind a blank. A line
// that begins with // is no setting either.
std::string blank_comments(std::string text) {
  std::fill_n(text.begin(), byte_order_mark_size(text), ' ');
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::size_t hash = text.find('#', begin), first = text.find_first_not_of(" \t", begin);
    if (text.compare(std::min(first, text.size()), 2, "//") == 0) {
      std::fill(text.begin() + static_cast<long>(first), text.begin() + static_cast<long>(end), ' ');
    } else if (hash < end) {
      if (hash == first || text[hash - 1] == ' ' || text[hash - 1] == '\t')
        std::fill(text.begin() + static_cast<long>(hash), text.begin() + static_cast<long>(end), ' ');
    }
    begin = end + 1;
  }
  return text;
}

TextPtr Loader::text(std::string name, std::string content) { return finish(std::move(name), std::move(content), "."); }

TextPtr Loader::file(const std::string& path, const SourcePos& named_at) {
  std::string content;
  const std::string wrong = read_all(path, content);
  if (!wrong.empty()) {
    problems_.add(Diagnostic{named_at, wrong, "check the path; relative paths start at the current directory"});
    return nullptr;
  }
  const std::string id = canonical(path);
  read_.insert(id);
  active_.push_back(id);
  const std::string directory = directory_of(path);
  if (std::find(directories_.begin(), directories_.end(), directory) == directories_.end())
    directories_.push_back(directory);
  TextPtr result = finish(path, std::move(content), directory);
  active_.pop_back();
  return result;
}

TextPtr Loader::finish(std::string name, std::string content, const std::string& directory) {
  const bool wide = content.starts_with("\xFF\xFE") || content.starts_with("\xFE\xFF");
  const auto control = std::find_if(content.begin(), content.end(), is_control);
  if (wide || control != content.end()) {
    const auto offset = static_cast<std::size_t>(wide ? 0 : control - content.begin());
    std::replace_if(content.begin(), content.end(), is_control, '?');  // what is shown must not upset a terminal
    if (wide) content.replace(0, 2, "??");
    auto source = std::make_shared<Source>(Source{name, std::move(content), nullptr});
    problems_.add(
        Diagnostic{{source, offset, 1},
                   fmt::format("'{}' is not a text file{}", name, wide ? " in UTF-8 but UTF-16" : ""),
                   wide ? "save it as UTF-8" : "name a config file here; models and data files go elsewhere"});
    return nullptr;
  }
  auto text = std::make_shared<Text>();
  text->clean = blank_comments(content);
  text->source = std::make_shared<Source>(Source{std::move(name), std::move(content), nullptr});
  resolve_includes(*text, directory);
  return text;
}

void Loader::resolve_includes(Text& text, const std::string& directory) {
  const std::string_view clean = text.clean;
  for (std::size_t begin = 0; begin < clean.size();) {
    const std::size_t end = std::min(clean.find('\n', begin), clean.size());
    if (starts_include(clean.substr(begin, end - begin))) {
      std::vector<TextPtr>& found = text.includes[begin];
      std::size_t from = clean.find('=', begin) + 1;
      while (from <= end) {
        std::size_t to = std::min(clean.find('+', from), end);
        const std::size_t next = to + 1;
        while (from < to && (is_blank(clean[from]) || clean[from] == '"')) ++from;
        while (to > from && (is_blank(clean[to - 1]) || clean[to - 1] == '"')) --to;
        const SourcePos where{text.source, from, to - from};
        const std::string path(clean.substr(from, to - from));
        if (path.empty()) {
          problems_.add(Diagnostic{where, "include names no file", "write include=path/to/file"});
        } else if (path.find('$') != std::string::npos) {
          problems_.add(Diagnostic{where, "variables are not substituted in include", "write the path itself"});
        } else if (TextPtr included = include(path, where, directory)) {
          found.push_back(std::move(included));
        }
        from = next;
      }
    }
    begin = end + 1;
  }
}

// Looks in the current directory first, as the original does, then beside the including file, then beside the others.
TextPtr Loader::include(const std::string& path, const SourcePos& named_at, const std::string& directory) {
  std::vector<std::string> candidates = {path};
  if (fs::path(path).is_relative()) {
    candidates.push_back((fs::path(directory) / path).string());
    for (const auto& d : directories_) candidates.push_back((fs::path(d) / path).string());
  }
  std::error_code ignored;
  const auto found = std::find_if(candidates.begin(), candidates.end(), [&](const std::string& c) {
    return fs::exists(c, ignored) && !fs::is_directory(c, ignored);
  });
  if (found == candidates.end()) return file(path, named_at);  // says what is wrong with it
  const std::string id = canonical(*found);
  if (std::find(active_.begin(), active_.end(), id) != active_.end()) {
    problems_.add(Diagnostic{named_at, fmt::format("'{}' includes itself", *found),
                             "remove one of the include lines of the circle"});
    return nullptr;
  }
  if (read_.contains(id)) {
    notices_.lines.push_back(fmt::format("'{}' is included more than once; it is read the first time only", *found));
    return nullptr;
  }
  return file(*found, named_at);
}

}  // namespace tutti::config
