// SPDX-License-Identifier: Apache-2.0
#include "brainscript/function_help.h"

#include <fmt/format.h>

#include <algorithm>

#include "brainscript/evaluator.h"
#include "brainscript/library.h"
#include "brainscript/ndl_functions.h"
#include "brainscript/network.h"
#include "brainscript/syntax.h"

namespace tutti::brainscript {
namespace {

bool is_hidden(const std::string& name) { return name.empty() || name.front() == '_'; }

// From the name to the bracket that closes its parameters, on one line.
std::string signature_at(const std::string& text, std::size_t begin) {
  std::size_t at = text.find_first_of("({", begin), depth = 0;
  for (; at < text.size(); ++at) {
    if (text[at] == '(' || text[at] == '{') ++depth;
    if ((text[at] == ')' || text[at] == '}') && --depth == 0) break;
  }
  std::string out;
  for (const char c : text.substr(begin, at + 1 - begin)) {
    const bool blank = c == ' ' || c == '\n';
    if (!blank || (!out.empty() && out.back() != ' ')) out += blank ? ' ' : c;
  }
  return out;
}

// The last heading "# ---- title" before this place.
std::string section_at(const std::string& text, std::size_t place) {
  constexpr std::string_view mark = "\n# ---- ";
  const std::size_t at = text.rfind(mark, place);
  if (at == std::string::npos) return {};
  const std::size_t begin = at + mark.size();
  return text.substr(begin, text.find('\n', begin) - begin);
}

class LibraryWalk {
 public:
  LibraryWalk() : text_(library_text()) {
    root_ = parse_library(program_);
  }

  std::vector<FunctionHelp> run() {
    walk(*root_, "");
    for (const auto& native : natives()) {
      if (is_hidden(native.name)) continue;
      std::string arguments;
      for (const auto& [name, otherwise] : native.params)
        arguments += (arguments.empty() ? "" : ", ") + name + (otherwise ? "=''" : "");
      add({native.name, fmt::format("{} ({})", native.name, arguments), "functions and arrays", {}, {}});
    }
    return std::move(found_);
  }

 private:
  void add(FunctionHelp f) {
    f.sentence = sentence_of(f.same_as.empty() ? f.name : f.same_as);
    if (f.sentence.empty() && f.name.starts_with("CNTK2.")) f.sentence = sentence_of(f.name.substr(6));
    found_.push_back(std::move(f));
  }

  const Member* member(const std::string& name) const {
    const auto at =
        std::find_if(root_->members.begin(), root_->members.end(), [&](const Member& m) { return m.name == name; });
    return at == root_->members.end() ? nullptr : &*at;
  }

  void walk(const Expr& record, const std::string& prefix) {
    for (const Member& m : record.members) {
      if (is_hidden(m.name)) continue;
      const Expr* value = m.value;
      // BS.Loop = _Loop: the members of a record that stands elsewhere.
      if (value->kind == ExprKind::identifier && is_hidden(value->name))
        if (const Member* other = member(value->name)) value = other->value;
      const std::string section = prefix.empty() ? section_at(text_, m.where.offset) : prefix + "*";
      if (value->kind == ExprKind::lambda) {
        add({prefix + m.name, prefix + signature_at(text_, m.where.offset), section, {}, {}});
      } else if (value->kind == ExprKind::record) {
        walk(*value, prefix + m.name + ".");
      } else if (value->kind == ExprKind::identifier && !is_hidden(value->name)) {
        add({prefix + m.name, prefix + m.name, section, {}, value->name});
      }
    }
  }

  std::string text_;
  Program program_;
  const Expr* root_ = nullptr;
  std::vector<FunctionHelp> found_;
};

}  // namespace

std::vector<FunctionHelp> library_functions() { return LibraryWalk().run(); }

std::vector<FunctionHelp> ndl_functions() {
  Program program;
  const ndl::FunctionTable table(*parse_library(program));
  std::vector<FunctionHelp> all;
  for (const ndl::Function* f : table.all()) {
    std::string sentence(sentence_of(f->name));
    if (sentence.empty()) sentence = sentence_of(f->operation);
    all.push_back({f->name, ndl::signature(*f), "NDL", sentence, {}});
  }
  return all;
}

}  // namespace tutti::brainscript
