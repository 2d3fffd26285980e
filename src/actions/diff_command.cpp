// SPDX-License-Identifier: Apache-2.0
// Both sides become the settings that their commands read, so what is inherited on one side and written in the block on
// the other is equal, and so is a default that one side writes.
#include "actions/diff_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <map>
#include <sstream>

#include "actions/effective_config.h"
#include "base/exit_codes.h"
#include "cntk/model.h"
#include "config/command_line.h"
#include "config/load.h"
#include "config/text.h"
#include "train/container.h"
#include "train/file.h"

namespace tutti::actions {
namespace {

using config::Setting;

constexpr const char* kDiffUsage =
    "usage: trainer diff A B\n"
    "A and B are config files (several: a.cntk+b.cntk) or models, whose settings lie beside them in MODEL.config.\n"
    "Shows each key whose value differs, with both values and their places. Exit code: 0 equal, 1 different, 2 "
    "an error.\n";

struct DiffSide {
  std::string name;
  bool model = false;
  config::TopLevel top = {};
  config::CommandLine line = {};  // keeps the texts that places refer to
  std::vector<Setting> settings = {};
};

// "model.dnn" and "model.dnn.3" have their settings in "model.dnn.config".
std::string settings_of_model(const std::string& path) {
  if (file_exists(settings_path(path))) return settings_path(path);
  const std::filesystem::path p(path);
  const std::string number = p.extension().string();
  const bool epoch = number.size() > 1 && number.find_first_not_of("0123456789", 1) == std::string::npos;
  const std::string whole = (p.parent_path() / p.stem()).string();
  if (epoch && file_exists(settings_path(whole))) return settings_path(whole);
  throw Error(
      fmt::format("the settings of '{}' are not known: there is no '{}'\nfix: compare with the config it was "
                  "trained by; trainings of this version keep their settings in that file",
                  path, settings_path(path)));
}

bool is_model_file(const std::string& path) {
  return file_exists(path) && (cntk::is_model(path) || container_kind(path) == "model");
}

DiffSide read_side(const std::string& name) {
  DiffSide side{.name = name, .model = is_model_file(name)};
  const std::string word = "configFile=" + (side.model ? settings_of_model(name) : name);
  const char* const words[] = {"trainer", word.c_str()};
  side.line = config::parse_command_line(2, words);
  Problems problems;
  side.top = config::read_top_level(side.line.config, 1, problems, side.line.notices);
  problems.throw_if_any();
  for (const std::string& command : side.top.command)
    if (!side.line.config.is_block(command))
      throw ConfigError(side.line.config.where(), fmt::format("{}: there is no command block '{}'", name, command),
                        "name a block in command = ...");
  return side;
}

// A model knows its own training only.
std::vector<std::string> commands_of(const DiffSide& side, const DiffSide& other) {
  std::vector<std::string> commands = side.top.command;
  if (other.model && !side.model)
    std::erase_if(commands, [&](const std::string& c) {
      return std::ranges::none_of(other.top.command, [&](const auto& o) { return config::equal_keys(o, c); });
    });
  return commands;
}

struct Flat {
  std::string path;
  const Setting* setting;
};

void flatten(const std::vector<Setting>& all, const std::string& before, std::vector<Flat>& flat) {
  for (const Setting& s : all) {
    const std::string path = before.empty() ? s.key : before + "." + s.key;
    if (s.block)
      flatten(s.members, path, flat);
    else
      flat.push_back({path, &s});
  }
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const auto first = line.find_first_not_of(" \t\r");
    if (first != line.npos) lines.push_back(line.substr(first, line.find_last_not_of(" \t\r") - first + 1));
  }
  return lines;
}

// The elements of a value, numbers in one spelling.
std::vector<std::string> elements_of(const std::string& value) {
  std::vector<std::string> all;
  try {
    all = config::record_from_text("x = " + value).strings("x");
  } catch (const ConfigError&) {
    all = {value};
  }
  for (std::string& e : all) {
    double v = 0;
    const auto [end, error] = std::from_chars(e.data(), e.data() + e.size(), v);
    if (error == std::errc() && end == e.data() + e.size()) e = fmt::format("{}", v);
  }
  return all;
}

bool same_value(const Setting& a, const Setting& b) {
  if (!a.meaning.empty() && a.meaning == b.meaning) return true;
  if (a.value == b.value || lines_of(a.value) == lines_of(b.value)) return true;
  return a.value.find('\n') == std::string::npos && elements_of(a.value) == elements_of(b.value);
}

std::string place_of_setting(const Setting& s) {
  if (!s.given || !s.where.source) return "default";
  std::string text = render({s.where, "", ""}, "here");
  return text.substr(0, text.find(": here: "));
}

// The value, of a longer text the first line that is not in the other.
std::string shown(const Setting* s, const Setting* other) {
  if (!s) return "not set";
  const auto lines = lines_of(s->value);
  const auto others = other ? lines_of(other->value) : std::vector<std::string>{};
  std::size_t first = 0;
  while (first < lines.size() && first < others.size() && lines[first] == others[first]) ++first;
  std::string text = lines.empty() ? s->value : first < lines.size() ? lines[first] : "(ends earlier)";
  if (lines.size() > 1) text = fmt::format("line {}: {}", first + 1, text);
  return fmt::format("{}  ({})", text, place_of_setting(*s));
}

// Whether the same two places are told of the key in a block around: what is inherited differs once.
bool is_told_outside(const std::map<std::string, std::string>& told, const std::string& path,
                     const std::string& places) {
  std::size_t dot = path.rfind('.');
  const std::string key = dot == path.npos ? "" : path.substr(dot);
  while (dot != path.npos) {
    dot = dot == 0 ? path.npos : path.rfind('.', dot - 1);
    const auto outer = told.find(dot == path.npos ? key.substr(1) : path.substr(0, dot) + key);
    if (outer != told.end() && outer->second == places) return true;
  }
  return false;
}

int print_differences(const DiffSide& a, const DiffSide& b) {
  std::vector<Flat> of_a, of_b;
  flatten(a.settings, "", of_a), flatten(b.settings, "", of_b);
  std::map<std::string, const Setting*> in_a, in_b;
  for (const Flat& f : of_a) in_a.emplace(config::to_lower(f.path), f.setting);
  for (const Flat& f : of_b) in_b.emplace(config::to_lower(f.path), f.setting);
  std::vector<Flat> all = of_a;
  for (const Flat& f : of_b)
    if (!in_a.contains(config::to_lower(f.path))) all.push_back(f);
  std::map<std::string, std::string> told;  // places by key
  for (const Flat& f : all) {
    const std::string key = config::to_lower(f.path);
    if (key == "command" && (a.model || b.model)) continue;
    const auto x = in_a.find(key), y = in_b.find(key);
    const Setting* const left = x == in_a.end() ? nullptr : x->second;
    const Setting* const right = y == in_b.end() ? nullptr : y->second;
    if (left && right && same_value(*left, *right)) continue;
    if ((!left && !right->given) || (!right && !left->given)) continue;  // a default of a block that the other has not
    const auto place = [](const Setting* s) { return s ? place_of_setting(*s) : "default"; };
    const std::string places = place(left) + " " + place(right);
    if (is_told_outside(told, key, places)) continue;
    fmt::print("{}\n  A: {}\n  B: {}\n", f.path, shown(left, right), shown(right, left));
    told.emplace(key, places);
  }
  if (!told.empty()) fmt::print("{} difference{}\n", told.size(), told.size() == 1 ? "" : "s");
  return told.empty() ? 0 : 1;
}

}  // namespace

int run_diff(int argc, const char* const* argv) {
  const std::vector<std::string> words(argv, argv + argc);
  if (std::ranges::any_of(words, [](const auto& w) { return w == "--help" || w == "-h"; }))
    return std::fputs(kDiffUsage, stdout), 0;
  try {
    if (words.size() != 2) throw Error(fmt::format("error: diff takes two files, not {}\nfix: trainer diff A B", argc));
    DiffSide a = read_side(words[0]), b = read_side(words[1]);
    for (auto [side, other] : {std::pair(&a, &b), std::pair(&b, &a)})
      side->settings =
          effective_config(side->line.config, side->top, commands_of(*side, *other), Inherited::in_each_block);
    return print_differences(a, b);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return kWrongConfiguration;
  }
}

}  // namespace tutti::actions
