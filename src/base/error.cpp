// SPDX-License-Identifier: Apache-2.0
// Renders file:line:column, the offending line with a caret, and the fix; finds the nearest known name.
#include "tutti/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <numeric>
#include <set>

namespace tutti {
namespace {

struct LineAt {
  std::size_t number = 1, column = 1;
  std::string_view text;
};

LineAt line_at(const Source& source, std::size_t offset) {
  const std::string_view text = source.text;
  offset = std::min(offset, text.size());
  const std::size_t before = offset == 0 ? std::string_view::npos : text.rfind('\n', offset - 1);
  const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
  const std::size_t end = std::min(text.find('\n', offset), text.size());
  LineAt at;
  at.number = source.first_line +
              static_cast<std::size_t>(std::count(text.begin(), text.begin() + static_cast<long>(begin), '\n'));
  at.column = offset - begin + 1;
  at.text = text.substr(begin, std::max(end, begin) - begin);
  if (!at.text.empty() && at.text.back() == '\r') at.text.remove_suffix(1);
  return at;
}

// The caret line repeats tabs so that it stays under its word however wide the terminal draws them.
std::string excerpt(const LineAt& at, std::size_t length) {
  constexpr std::size_t widest = 200;  // a data line can be megabytes long
  std::size_t from = 0;
  std::string_view text = at.text;
  std::string head;
  if (text.size() > widest) {
    from = at.column > widest / 2 ? std::min(at.column - widest / 2, text.size() - 1) : 0;
    if (from > 0) head = "...";
    text = text.substr(from, widest);
  }
  const std::size_t lead = at.column - 1 - std::min(from, at.column - 1);
  std::string caret(head.size(), ' ');
  for (std::size_t i = 0; i < lead; ++i) caret += i < text.size() && text[i] == '\t' ? '\t' : ' ';
  const std::size_t capacity = text.size() > lead ? text.size() - lead : 1;
  caret += '^';
  caret.append(std::clamp<std::size_t>(length, 1, capacity) - 1, '~');
  return fmt::format("{:>5} | {}{}\n      | {}\n", at.number, head, text, caret);
}

std::string lower(std::string_view s) {
  std::string r(s);
  std::transform(r.begin(), r.end(), r.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return r;
}

// Damerau-Levenshtein distance in its restricted form: neighbouring letters swapped count once.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i)
    for (std::size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

// One mistake is met as often as its value is looked at.
std::vector<Diagnostic> without_repetitions(std::vector<Diagnostic> diagnostics) {
  std::set<std::string> seen;
  std::erase_if(diagnostics, [&](const Diagnostic& d) { return !seen.insert(render(d)).second; });
  return diagnostics;
}

}  // namespace

std::string render(const Diagnostic& d, std::string_view kind) {
  std::string out;
  if (d.where.source) {
    const LineAt at = line_at(*d.where.source, d.where.offset);
    out = fmt::format("{}:{}:{}: {}: {}\n", d.where.source->name, at.number, at.column, kind, d.message);
    out += excerpt(at, d.where.length);
    for (auto origin = d.where.source->origin; origin && origin->source; origin = origin->source->origin) {
      const LineAt from = line_at(*origin->source, origin->offset);
      out += fmt::format("{}:{}:{}: the text above was substituted here\n", origin->source->name, from.number,
                         from.column);
      out += excerpt(from, origin->length);
    }
  } else {
    out = fmt::format("{}: {}\n", kind, d.message);
  }
  if (!d.fix.empty()) out += fmt::format("fix: {}\n", d.fix);
  return out;
}

ConfigError::ConfigError(SourcePos where, std::string message, std::string fix)
    : ConfigError(std::vector<Diagnostic>{{std::move(where), std::move(message), std::move(fix)}}) {}

ConfigError::ConfigError(std::vector<Diagnostic> diagnostics)
    : diagnostics_(without_repetitions(std::move(diagnostics))) {
  for (const Diagnostic& d : diagnostics_) rendered_.append(rendered_.empty() ? "" : "\n").append(render(d));
}

std::string nearest(std::string_view name, const std::vector<std::string>& known) {
  const std::string wanted = lower(name);
  std::string best;
  const std::size_t limit = 1 + std::max<std::size_t>(1, name.size() / 3);
  std::size_t best_distance = limit;
  for (const auto& k : known) {
    const std::string candidate = lower(k);
    std::size_t d = distance(wanted, candidate);
    // A name cut short or written on ("momentum" for "momentumPerMB") is near whatever the lengths say, though a true
    // slip is nearer.
    if (wanted.size() >= 4 && candidate.starts_with(wanted)) d = std::min(d, limit - 1);
    if (d < best_distance) best = k, best_distance = d;
  }
  return best;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& known, std::string otherwise) {
  const std::string near = nearest(name, known);
  return near.empty() ? otherwise : fmt::format("did you mean '{}'?", near);
}

}  // namespace tutti
