// SPDX-License-Identifier: Apache-2.0
#include "actions/effective_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <span>

#include "actions/action.h"
#include "base/pattern.h"
#include "brainscript/keras.h"
#include "brainscript/simple_network.h"
#include "config/text.h"
#include "train/file.h"
#include "train/sgd_options.h"
#include "tutti/log.h"
#include "tutti/reader.h"

namespace tutti::actions {
namespace {

namespace fs = std::filesystem;
using config::Record;
using config::Setting;

constexpr std::array kBuilders{"createNetwork",       "SimpleNetworkBuilder",      "NDLNetworkBuilder",
                               "KerasNetworkBuilder", "BrainScriptNetworkBuilder", "ExperimentalNetworkBuilder"};

void add(std::vector<Setting>& all, std::vector<Setting> more) {
  for (Setting& s : more)
    if (!config::find_setting(all, s.key)) all.push_back(std::move(s));
}

// A script finds what it includes beside the config, which the new config may not be.
void name_includes_in_full(const Record& block, std::string& text) {
  static const Pattern include(R"rx((\binclude\s+["'])([^"']+)(["']))rx");
  text = include.replace(text, [&](const Pattern::Match& m) {
    std::string path = m[2];
    std::error_code ignored;
    for (const std::string& folder : config::include_paths(block))
      if (fs::path(path).is_relative() && fs::exists(fs::path(folder) / path, ignored)) {
        path = fs::weakly_canonical(fs::path(folder) / path, ignored).string();
        break;
      }
    return m[1] + path + m[3];
  });
}

template <class Options>
std::vector<Setting> read_again(const Record& block, const char* name) {
  Problems reported;
  config::Notices ignored;
  auto options = config::read<Options>(block, name, reported, ignored);
  return config::effective_settings(block, [&](config::Fields& f) { options.describe(f); });
}

Setting builder(const Record& level, const char* key) {
  Setting s = *config::written_setting(level, key);
  if (!s.block) {
    name_includes_in_full(level, s.value);
  } else if (config::equal_keys(key, "SimpleNetworkBuilder")) {
    s.members = read_again<brainscript::SimpleNetworkOptions>(level.block(key), key);
  } else if (config::equal_keys(key, "KerasNetworkBuilder")) {
    s.members = read_again<brainscript::keras::Options>(level.block(key), key);
  }
  return s;
}

Setting sgd(const Record& command) {
  const Record block = command.block("SGD");
  Problems reported;
  config::Notices ignored;
  SgdOptions o = read_sgd_options(block, reported, ignored);
  Setting s{"SGD", {}, block.where(), true, true, false, config::effective_settings(block, [&](config::Fields& f) {
              o.describe(f);
            })};
  if (!block.has_own("modelPath"))  // inherited: the path of the command's own model
    std::erase_if(s.members, [](const Setting& m) { return config::equal_keys(m.key, "modelPath"); });
  return s;
}

Setting reader(const Record& command, const char* key, const std::string& action) {
  const Record block = command.block(key);
  Problems reported;
  config::Notices ignored;
  const ReaderType type = effective_reader(block, {action, 0, &reported, &ignored, true});
  Setting s{key, {}, block.where(), true};
  if (const auto name = block.find("readerType"); name && !block.has_own("readerType"))
    s.members.push_back({"readerType", '"' + name->text + '"', name->where});
  if (const auto own = config::written_setting(block, "readerType")) s.members.push_back(*own);
  if (type.describe)
    add(s.members, config::effective_settings(block, type.describe));
  else
    add(s.members, config::written_settings(block));
  return s;
}

std::vector<std::string> actions_in(const Record& command) {
  const auto actions = command.strings("action");
  return actions.empty() ? std::vector<std::string>{"train"} : actions;
}

// Other actions build a network of their own block only.
bool builds_inherited_network(const Record& command) {
  return std::ranges::any_of(actions_in(command), [](const std::string& action) {
    const ActionEntry* entry = find_action(action);
    return entry && (entry->names[0] == "train" || entry->names[0] == "edit");
  });
}

bool is_read_inside(const std::vector<Setting>& all, const std::string& key) {
  return std::ranges::any_of(all, [&](const Setting& s) {
    return ((s.block || s.inherited) && config::equal_keys(s.key, key)) || is_read_inside(s.members, key);
  });
}

// Whether a block has the key, set or by default. A setting of that name around the block is for the block, not for an
// action.
bool is_known_inside(const std::vector<Setting>& all, const std::string& key) {
  return std::ranges::any_of(
      all, [&](const Setting& s) { return config::equal_keys(s.key, key) || is_known_inside(s.members, key); });
}

// Scripts in languages of their own, whose variables may be any setting around them.
bool has_script(const Record& command, const std::vector<std::string>& actions) {
  return command.has("NDLNetworkBuilder") ||
         std::ranges::any_of(actions, [](const auto& a) { return config::equal_keys(a, "edit"); });
}

// What is inherited from a block that is printed, too, is inherited again; so it can be changed in one place.
void drop_repeated(std::vector<Setting>& all, std::vector<const std::vector<Setting>*>& around) {
  std::erase_if(all, [&](const Setting& s) {
    if (!s.inherited || s.block) return false;
    for (auto level = around.rbegin(); level != around.rend(); ++level)
      if (const Setting* outer = config::find_setting(**level, s.key); outer && outer->given && !outer->block)
        return outer->value == s.value;
    return false;
  });
  around.push_back(&all);
  for (Setting& s : all)
    if (s.block) drop_repeated(s.members, around);
  around.pop_back();
}

// `outside`: receives the SGD and reader blocks that stand outside the command. Printed inside, they would inherit from
// the command what they do not set.
Setting command_block(const Record& command, const std::string& name, bool once, std::vector<Setting>& outside) {
  const std::vector<std::string> actions = actions_in(command);
  Setting s{name, {}, command.where(), true};
  if (const auto own = config::written_setting(command, "action")) s.members.push_back(*own);
  std::string first;
  bool trains = false;
  for (const std::string& action : actions) {
    const ActionEntry* entry = find_action(action);
    if (!entry) continue;
    if (first.empty()) first = entry->names[0];
    trains = trains || entry->names[0] == "train";
    add(s.members, config::effective_settings(command, entry->describe, config::Unknown::drop));
  }
  const auto to = [&](const char* key) -> std::vector<Setting>& { return command.has_own(key) ? s.members : outside; };
  if (trains && command.is_block("SGD")) add(to("SGD"), {sgd(command)});
  for (const char* key : kBuilders)
    if (config::written_setting(command, key)) s.members.push_back(builder(command, key));
  for (const char* key : {"reader", "cvReader"})
    if (command.is_block(key) && (key[0] == 'r' || trains))
      add(to(key), {reader(command, key, key[0] == 'c' ? "cv" : first)});
  // What an action looks up by itself, such as the block `writer`.
  const bool script = has_script(command, actions);
  for (Setting& own : config::written_settings(command)) {
    const bool for_blocks = own.block ? is_read_inside(s.members, own.key)
                                      : is_known_inside(s.members, own.key) || is_known_inside(outside, own.key);
    if ((script || !config::is_variable(command, own.key)) && (once || !for_blocks)) add(s.members, {std::move(own)});
  }
  return s;
}

}  // namespace

std::vector<Setting> effective_config(const Record& top, const config::TopLevel& options,
                                      const std::vector<std::string>& commands, Inherited inherited) {
  const bool once = inherited == Inherited::once;
  config::TopLevel now = options;
  auto all = config::effective_settings(
      top, [&](config::Fields& f) { now.describe(f); }, config::Unknown::drop);
  for (Setting& s : all)
    if (config::equal_keys(s.key, "command") && now.command != commands)
      s.value = fmt::format("{}", fmt::join(commands, ":")), s.given = true;
  std::vector<Setting> blocks;
  bool script = false;
  for (const std::string& name : commands) {
    if (!top.is_block(name)) continue;
    const Record command = top.block(name);
    script = script || has_script(command, command.strings("action"));
    std::vector<Setting> outside;
    Setting& block = blocks.emplace_back(command_block(command, name, once, outside));
    add(once ? all : block.members, std::move(outside));
    for (const char* key : kBuilders) {
      if (command.has_own(key) || !top.has_own(key) || (!once && !builds_inherited_network(command))) continue;
      Setting network = builder(top, key);
      network.inherited = !once;
      add(once ? all : block.members, {std::move(network)});
    }
  }
  if (script)
    for (Setting& s : config::written_settings(top))
      if ((!top.is_block(s.key) || !top.block(s.key).has_own("action")) && (once || !is_read_inside(blocks, s.key)))
        add(all, {std::move(s)});
  for (Setting& s : blocks) {
    std::erase_if(all, [&](const Setting& o) { return config::equal_keys(o.key, s.key); });
    all.push_back(std::move(s));
  }
  std::vector<const std::vector<Setting>*> around;
  if (once) drop_repeated(all, around);
  return all;
}

std::string settings_path(const std::string& model_path) { return model_path + ".config"; }

void write_settings_file(const std::string& model_path, const std::vector<Setting>& settings) {
  const std::string path = settings_path(model_path);
  try {
    create_directories(directory_of(path));
    File file = File::create(path + ".tmp");
    const std::string text = "# The settings of the training that writes this model; trainer diff compares them.\n" +
                             config::to_text(settings);
    file.write(std::as_bytes(std::span(text)));
    file.sync();
    file.close();
    rename_durably(path + ".tmp", path);
  } catch (const Error& e) {
    std::remove((path + ".tmp").c_str());
    log::warning(fmt::format("the settings of this training are not kept beside the model: {}", e.what()));
  }
}

}  // namespace tutti::actions
