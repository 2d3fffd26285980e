// SPDX-License-Identifier: Apache-2.0
#include "brainscript/function_help.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "brainscript/evaluator.h"
#include "brainscript/ndl.h"
#include "brainscript/network.h"
#include "brainscript/syntax.h"

namespace tutti::brainscript {
namespace {

bool is_hidden(const std::string& name) { return name.empty() || name.front() == '_'; }

// Where the bracket that closes a function's parameters stands.
std::size_t end_of_signature(const std::string& text, std::size_t begin) {
  std::size_t at = text.find_first_of("({", begin), depth = 0;
  for (; at < text.size(); ++at) {
    if (text[at] == '(' || text[at] == '{') ++depth;
    if ((text[at] == ')' || text[at] == '}') && --depth == 0) break;
  }
  return at;
}

// From the name to there, on one line.
std::string signature_at(const std::string& text, std::size_t begin) {
  std::string out;
  for (const char c : text.substr(begin, end_of_signature(text, begin) + 1 - begin)) {
    const bool blank = c == ' ' || c == '\n';
    if (!blank || (!out.empty() && out.back() != ' ')) out += blank ? ' ' : c;
  }
  return out;
}

// What stands behind "## " at the end of the same line.
std::string sentence_at(const std::string& text, std::size_t begin) {
  const std::size_t from = end_of_signature(text, begin), end = text.find('\n', from);
  const std::size_t mark = text.find("## ", from);
  return mark < end ? text.substr(mark + 3, end - mark - 3) : std::string();
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
  LibraryWalk() : text_(library_text()), root_(*parse_library(program_)) { walk(root_, ""); }

  std::vector<FunctionHelp> functions() {
    for (const auto& native : natives()) {
      if (is_hidden(native.name)) continue;
      std::string arguments;
      for (const auto& [name, otherwise] : native.params)
        arguments += (arguments.empty() ? "" : ", ") + name + (otherwise ? "=''" : "");
      found_.push_back({native.name,
                        fmt::format("{} ({})", native.name, arguments),
                        "functions and arrays",
                        std::string(native.sentence),
                        {}});
    }
    for (FunctionHelp& f : found_) {
      if (!f.same_as.empty()) f.sentence = sentence_of(f.same_as);
      if (f.sentence.empty() && f.name.starts_with("CNTK2.")) f.sentence = sentence_of(f.name.substr(6));
    }
    return std::move(found_);
  }

  std::vector<FunctionHelp> ndl_functions() {
    std::vector<FunctionHelp> all;
    for (const Member& m : member("_Ndl")->value->members)
      if (m.value->kind == ExprKind::lambda) sentences_.emplace(m.name, sentence_at(text_, m.where.offset));
    const ndl::FunctionTable table(root_);
    for (const ndl::Function* f : table.all()) {
      std::string sentence = sentence_of(f->name);
      if (sentence.empty()) sentence = sentence_of(f->operation);
      all.push_back({f->name, ndl::signature(*f), "NDL", std::move(sentence), {}});
    }
    return all;
  }

 private:
  std::string sentence_of(const std::string& function) const {
    const auto found = sentences_.find(function);
    return found == sentences_.end() ? std::string() : found->second;
  }

  const Member* member(const std::string& name) const {
    const auto at = std::ranges::find(root_.members, name, &Member::name);
    return at == root_.members.end() ? nullptr : &*at;
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
        const std::string& sentence = sentences_[prefix + m.name] = sentence_at(text_, m.where.offset);
        found_.push_back({prefix + m.name, prefix + signature_at(text_, m.where.offset), section, sentence, {}});
      } else if (value->kind == ExprKind::record) {
        walk(*value, prefix + m.name + ".");
      } else if (value->kind == ExprKind::identifier && !is_hidden(value->name)) {
        found_.push_back({prefix + m.name, prefix + m.name, section, {}, value->name});
      }
    }
  }

  std::string text_;
  Program program_;
  const Expr& root_;
  std::vector<FunctionHelp> found_;
  std::map<std::string, std::string> sentences_;
};

}  // namespace

std::vector<FunctionHelp> library_functions() { return LibraryWalk().functions(); }
std::vector<FunctionHelp> ndl_functions() { return LibraryWalk().ndl_functions(); }

}  // namespace tutti::brainscript
