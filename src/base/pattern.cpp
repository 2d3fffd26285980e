// SPDX-License-Identifier: Apache-2.0
#include "base/pattern.h"

#include <regex>

namespace tutti {
namespace {

Pattern::Match groups_of(const std::smatch& found) {
  Pattern::Match groups;
  groups.reserve(found.size());
  for (const auto& group : found) groups.push_back(group.str());
  return groups;
}

}  // namespace

struct Pattern::Compiled {
  std::regex regex;
};

Pattern::Pattern(const std::string& pattern) try
    : compiled_(std::make_shared<const Compiled>(Compiled{std::regex(pattern)})) {
} catch (const std::regex_error& e) {
  throw PatternError(e.what());
}

std::optional<Pattern::Match> Pattern::match(const std::string& text) const {
  std::smatch found;
  if (!std::regex_match(text, found, compiled_->regex)) return {};
  return groups_of(found);
}

std::optional<Pattern::Match> Pattern::search(const std::string& text) const {
  std::smatch found;
  if (!std::regex_search(text, found, compiled_->regex)) return {};
  return groups_of(found);
}

std::vector<Pattern::Match> Pattern::search_all(const std::string& text) const {
  std::vector<Match> all;
  for (std::sregex_iterator at(text.begin(), text.end(), compiled_->regex), end; at != end; ++at)
    all.push_back(groups_of(*at));
  return all;
}

std::string Pattern::replace(const std::string& text, const std::function<std::string(const Match&)>& by) const {
  std::string out;
  auto from = text.begin();
  for (std::sregex_iterator at(text.begin(), text.end(), compiled_->regex), end; at != end; ++at) {
    out.append(from, (*at)[0].first);
    out += by(groups_of(*at));
    from = (*at)[0].second;
  }
  return out.append(from, text.end());
}

}  // namespace tutti
