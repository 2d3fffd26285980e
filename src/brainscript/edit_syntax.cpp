// SPDX-License-Identifier: Apache-2.0
// Text of the model editing language -> statements. Variables are substituted first, as text: L$n$ = Scale (L$n$.S).
#include "brainscript/edit_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace tutti::brainscript::mel {
namespace {

constexpr std::string_view blanks = " \t\r\n";

bool blank(char c) { return blanks.find(c) != std::string_view::npos; }
bool name_part(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '*'; }

// A comment begins with # at the start of the line or behind a blank, outside of strings.
std::size_t comment_begin(const std::string& line) {
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') quoted = !quoted;
    if (line[i] == '#' && !quoted && (i == 0 || blank(line[i - 1]))) return i;
  }
  return line.size();
}

// Lines keep their numbers.
std::string substituted(const SourceText& file, const ndl::Variables& variable) {
  std::string out;
  for (std::size_t begin = 0; begin <= file.text.size();) {
    const std::size_t end = std::min(file.text.find('\n', begin), file.text.size());
    std::string line = file.text.substr(begin, end - begin);
    line.resize(comment_begin(line));
    for (std::size_t i = 0; i < line.size(); ++i) {
      const std::size_t close = line[i] == '$' ? line.find('$', i + 1) : std::string::npos;
      if (close == std::string::npos) {
        out += line[i];
        continue;
      }
      const std::string name = line.substr(i + 1, close - i - 1);
      const auto value = variable(name);
      if (!value)
        fail({&file, begin + i, close + 1 - i}, fmt::format("No variable found with the name {}", name),
             "define it in the config");
      out += *value;
      i = close;
    }
    if (end < file.text.size()) out += '\n';
    begin = end + 1;
  }
  return out;
}

// A range of the text.
struct Range {
  std::size_t begin = 0, end = 0;
};

class Parser {
 public:
  explicit Parser(std::shared_ptr<const SourceText> text) : text_(std::move(text)), s_(text_->text) {}

  std::vector<Statement> run(Range range) {
    std::vector<Statement> all;
    Range definitions;
    const auto flush = [&] {
      if (definitions.end > definitions.begin) all.push_back(ndl_statement(Statement::Kind::definitions, definitions));
      definitions = {};
    };
    for (const Range r : split(range, ";\n")) {
      const Range name = name_at(r.begin, r.end);
      if (name.begin == name.end) fail(span(r), "expected a command or a definition");
      const std::size_t next = skip(name.end, r.end);
      if (next < r.end && s_[next] == '=') {
        const std::size_t value = skip(next + 1, r.end);
        if (value == r.end) fail(span(r), fmt::format("'{}' has no value", text(name)));
        if (s_[value] == '[') {
          flush();
          all.push_back(ndl_statement(Statement::Kind::network, {value, r.end}));
          all.back().target = text(name);
        } else if (makes_model(name_at(value, r.end))) {
          flush();
          all.push_back(command({value, r.end}));
          all.back().target = text(name);
        } else {
          if (definitions.end == 0) definitions.begin = r.begin;
          definitions.end = r.end;
        }
      } else {
        flush();
        all.push_back(command(r));
      }
    }
    flush();
    return all;
  }

  Range whole() const { return {0, s_.size()}; }

  // The parts between separators that stand outside of brackets and strings; empty ones are left out.
  std::vector<Range> split(Range range, std::string_view separators) const {
    std::vector<Range> parts;
    std::vector<std::size_t> open;
    std::size_t begin = range.begin;
    const auto add = [&](std::size_t end) {
      const std::size_t from = skip(begin, end);
      while (end > from && blank(s_[end - 1])) --end;
      if (end > from) parts.push_back({from, end});
    };
    for (std::size_t i = range.begin; i < range.end; ++i) {
      const char c = s_[i];
      if (c == '"') {
        const std::size_t end = s_.find_first_of("\"\n", i + 1);
        if (end == std::string::npos || s_[end] == '\n')
          fail({text_.get(), i, 1}, "this string has no end", "close the quote on the same line");
        i = end;
      } else if (std::string_view("([{").find(c) != std::string_view::npos) {
        open.push_back(i);
      } else if (std::string_view(")]}").find(c) != std::string_view::npos) {
        if (open.empty()) fail({text_.get(), i, 1}, fmt::format("'{}' closes nothing", c));
        open.pop_back();
      } else if (open.empty() && separators.find(c) != std::string_view::npos) {
        add(i);
        begin = i + 1;
      }
    }
    if (!open.empty()) fail({text_.get(), open.back(), 1}, fmt::format("'{}' is not closed", s_[open.back()]));
    add(range.end);
    return parts;
  }

  std::string text(Range r) const { return s_.substr(r.begin, r.end - r.begin); }
  Range name_at(std::size_t at, std::size_t end) const {
    Range r{at, at};
    while (r.end < end && name_part(s_[r.end])) ++r.end;
    return r;
  }
  std::size_t skip(std::size_t at, std::size_t end) const {
    while (at < end && blank(s_[at])) ++at;
    return at;
  }
  Span span(Range r) const {
    const std::size_t line_end = std::min(s_.find('\n', r.begin), r.end);
    return {text_.get(), r.begin, line_end - r.begin};
  }

  Statement ndl_statement(Statement::Kind kind, Range r) const {
    Statement s;
    s.kind = kind;
    s.where = span(r);
    s.script = ndl::parse({text(r), text_->source, r.begin, false});
    return s;
  }

 private:
  bool makes_model(Range name) const {
    const std::string f = config::to_lower(text(name));
    return f == "loadmodel" || f == "createmodel";
  }

  Statement command(Range r) const {
    Statement s;
    s.where = span(r);
    const Range name = name_at(r.begin, r.end);
    s.command = text(name);
    const std::size_t open = skip(name.end, r.end);
    if (open == r.end || s_[open] != '(')
      fail(s.where, fmt::format("'{}' is not a command with arguments", text(r)), "write Command (arguments)");
    if (s_[r.end - 1] != ')') fail(s.where, "expected ')' at the end of the command");
    for (const Range a : split({open + 1, r.end - 1}, ",\n")) s.arguments.push_back(argument(a));
    return s;
  }

  Argument argument(Range r) const {
    Argument a;
    a.where = span(r);
    const Range name = name_at(r.begin, r.end);
    const std::size_t equals = skip(name.end, r.end);
    if (name.begin < name.end && equals < r.end && s_[equals] == '=') {
      a.option = text(name);
      r.begin = skip(equals + 1, r.end);
    }
    a.text = text(r);
    if (a.text.size() >= 2 && a.text.front() == '"' && a.text.back() == '"')
      a.text = a.text.substr(1, a.text.size() - 2);
    return a;
  }

  std::shared_ptr<const SourceText> text_;
  const std::string& s_;
};

// name = value at the top of the file.
struct Entry {
  std::string name;
  Range value;
};

std::vector<Entry> entries(const Parser& parser) {
  std::vector<Entry> all;
  for (const Range r : parser.split(parser.whole(), ";\n")) {
    const Range name = parser.name_at(r.begin, r.end);
    std::size_t value = parser.skip(name.end, r.end);
    const std::string rest = parser.text({value, r.end});
    if (rest.empty() || (rest[0] != '=' && rest[0] != '[')) continue;
    if (rest[0] == '=') value = parser.skip(value + 1, r.end);
    all.push_back({config::to_lower(parser.text(name)), {value, r.end}});
  }
  return all;
}

}  // namespace

bool truth_of(const Argument& a) {
  const std::string w = config::to_lower(a.text);
  if (w == "true" || w == "t" || w == "1") return true;
  if (w == "false" || w == "f" || w == "0") return false;
  fail(a.where, fmt::format("'{}' is neither true nor false", a.text));
}

Script parse(const SourceText& file, const ndl::Variables& variable) {
  Script script;
  const std::string text = substituted(file, variable);
  script.text = std::make_shared<SourceText>(
      SourceText{text, std::make_shared<Source>(Source{file.source->name, text, nullptr}), 0, false});
  Parser parser(script.text);
  const auto all = entries(parser);
  const auto section = [&](const std::string& name, const Span& where) {
    const auto found = std::ranges::find(all, config::to_lower(name), &Entry::name);
    if (found == all.end() || script.text->text[found->value.begin] != '[')
      fail(where, fmt::format("there is no section '{}'", name), fmt::format("write {} = [ ... ]", name));
    return found->value;
  };
  const auto named = [&](std::string_view key, auto use) {
    for (const auto& e : all)
      if (e.name == key)
        for (const Range r : parser.split(e.value, ":")) use(section(parser.text(r), parser.span(r)));
    return std::ranges::count(all, key, &Entry::name) > 0;
  };
  named("load", [&](Range r) { script.macros.push_back(parser.ndl_statement(Statement::Kind::network, r).script); });
  const bool sections = named("edit", [&](Range r) {
    for (auto& s : parser.run({r.begin + 1, r.end - 1})) script.statements.push_back(std::move(s));
  });
  if (!sections) script.statements = parser.run(parser.whole());
  return script;
}

}  // namespace tutti::brainscript::mel
