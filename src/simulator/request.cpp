// SPDX-License-Identifier: Apache-2.0
#include "simulator/request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <sstream>

#include "tutti/error.h"

namespace tutti::simulator {
namespace {

constexpr int kMostRanks = 65536;

[[noreturn]] void refuse(const std::string& what, const std::string& fix) {
  throw Error(fmt::format("simulate: {}\nfix: {}", what, fix));
}

std::vector<std::string> list(const std::string& text) {
  std::vector<std::string> parts;
  std::stringstream in(text);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

// A number and the unit behind it.
struct Quantity {
  double number = 0;
  std::string unit;
};
bool read(const std::string& text, Quantity& q) {
  char* end = nullptr;
  q.number = std::strtod(text.c_str(), &end);
  q.unit = end;
  return end != text.c_str() && std::isfinite(q.number) && q.number >= 0;
}

std::int64_t count(const std::string& option, const std::string& text, double most, const char* fix) {
  Quantity q;
  if (!read(text, q) || !q.unit.empty() || q.number < 1 || q.number > most || q.number != std::floor(q.number))
    refuse(fmt::format("{} '{}' is no number from 1 to {:.0f}", option, text, most), fix);
  return static_cast<std::int64_t>(q.number);
}

// "2,4,8", or "16:1024": twice as many each time.
std::vector<int> read_ranks(const std::string& text) {
  constexpr const char* kFix = "--ranks 2,4,8, or --ranks 16:1024 (each time twice as many)";
  std::vector<int> ranks;
  for (const std::string& part : list(text)) {
    const auto colon = part.find(':');
    const auto first = count("--ranks", part.substr(0, colon), kMostRanks, kFix);
    const auto last = colon == part.npos ? first : count("--ranks", part.substr(colon + 1), kMostRanks, kFix);
    if (last < first) refuse(fmt::format("--ranks '{}' ends before it begins", part), kFix);
    for (auto n = first; n <= last; n *= 2) ranks.push_back(static_cast<int>(n));
  }
  if (ranks.empty()) refuse("--ranks names no number of ranks", kFix);
  return ranks;
}

std::vector<Link> read_links(const std::string& text) {
  std::vector<Link> links;
  for (const std::string& part : list(text)) {
    Quantity q;
    const double unit = !read(part, q)     ? 0
                        : q.unit == "gbit" ? 1e9
                        : q.unit == "mbit" ? 1e6
                        : q.unit == "kbit" ? 1e3
                                           : 0;
    if (part == "none")
      links.push_back({part, std::numeric_limits<double>::infinity()});
    else if (unit * q.number > 0)
      links.push_back({part, unit * q.number});
    else
      refuse(fmt::format("--links '{}' is no rate", part), "--links 1gbit,10gbit,100gbit; also mbit, kbit, and none");
  }
  if (links.empty()) refuse("--links names no link", "--links 1gbit,10gbit,100gbit");
  return links;
}

double read_latency(const std::string& text) {
  Quantity q;
  if (read(text, q))
    for (const auto& [unit, seconds] : {std::pair("us", 1e-6), std::pair("ms", 1e-3), std::pair("s", 1.0)})
      if (q.unit == unit || q.number == 0) return q.number * seconds;
  refuse(fmt::format("--latency '{}' is no time", text), "--latency 30us; also ms and s");
}

struct Option {
  const char *name, *example;
  std::function<void(Request&, const std::string&)> read;
};
const std::vector<Option>& options() {
  static const std::vector<Option> all = {
      {"--ranks", "2,4,8", [](Request& r, const std::string& v) { r.ranks = read_ranks(v); }},
      {"--links", "1gbit,10gbit", [](Request& r, const std::string& v) { r.links = read_links(v); }},
      {"--latency", "30us", [](Request& r, const std::string& v) { r.latency = read_latency(v); }},
      {"--shared-cores", "2",
       [](Request& r, const std::string& v) {
         r.shared_cores = static_cast<int>(count("--shared-cores", v, 1024, "--shared-cores 2"));
       }},
      {"--per-rank", "128",
       [](Request& r, const std::string& v) { r.per_rank = count("--per-rank", v, 1e9, "--per-rank 128"); }},
      {"--json", "simulate.jsonl", [](Request& r, const std::string& v) { r.json = v; }},
  };
  return all;
}

}  // namespace

Request parse_request(const std::vector<std::string>& words) {
  Request r;
  r.links = read_links("1gbit,10gbit,100gbit");
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string name = words[i].substr(0, words[i].find('='));
    const auto option = std::ranges::find(options(), name, &Option::name);
    if (option == options().end()) {
      r.others.push_back(words[i]);
      continue;
    }
    const bool inlined = name.size() < words[i].size();
    // The configuration is no value.
    const bool follows = i + 1 < words.size() && !words[i + 1].starts_with("-") && words[i + 1].find('=') == name.npos;
    const std::string value = inlined ? words[i].substr(name.size() + 1) : follows ? words[++i] : "";
    if (value.empty()) refuse(fmt::format("{} needs a value", name), fmt::format("{} {}", name, option->example));
    option->read(r, value);
    r.own.push_back(fmt::format("{}={}", name, value));
  }
  return r;
}

}  // namespace tutti::simulator
