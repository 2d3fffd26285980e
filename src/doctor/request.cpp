// SPDX-License-Identifier: Apache-2.0
#include "doctor/request.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "config/command_line.h"
#include "config/effective.h"
#include "config/text.h"
#include "tutti/error.h"

namespace tutti::doctor {
namespace {

namespace fs = std::filesystem;

std::string unquoted(const std::string& text) {
  return text.size() > 1 && text.front() == '"' && text.back() == '"' ? text.substr(1, text.size() - 2) : text;
}

// Whether a reader opens the file that this key names; it is reported if it is missing here, too.
bool names_file(const std::string& key) {
  static constexpr const char* keys[] = {"file",    "files",       "fileList", "scpFile",
                                         "mlfFile", "mlfFileList", "wordmap",  "meanFile"};
  return std::ranges::any_of(keys, [&](const char* k) { return config::equal_keys(k, key); });
}

// The block of this key, or those of an array such as `deserializers`.
std::vector<config::Record> blocks_of(const config::Record& block, const std::string& key) {
  try {
    return block.blocks(key);
  } catch (const ConfigError&) {
    return {};
  }
}

// Values that name an existing file, and values of keys that must name one.
void add_files(const config::Record& block, std::vector<std::string>& files) {
  for (const config::Setting& s : config::written_settings(block)) {
    const std::vector<config::Record> blocks = blocks_of(block, s.key);
    for (const config::Record& inner : blocks) add_files(inner, files);
    if (!blocks.empty()) continue;
    std::error_code ignored;
    const std::string value = unquoted(s.value);
    const fs::path path = fs::absolute(value, ignored);
    const bool one = !value.empty() && value.find(':') == value.npos;
    if ((fs::is_regular_file(path, ignored) || (one && names_file(s.key) && !fs::exists(path, ignored))) &&
        std::ranges::find(files, path.string()) == files.end())
      files.push_back(path.string());
  }
}

// As a training reads it: in SGD, or outside of it.
std::string model_of(const config::Record& command) {
  const std::string outside = command.string("modelPath", "");
  return command.is_block("SGD") ? command.block("SGD").string("modelPath", outside) : outside;
}

void read_config(const std::vector<std::string>& words, Request& request) {
  std::vector<const char*> argv{"trainer"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  const config::CommandLine line = config::parse_command_line(static_cast<int>(argv.size()), argv.data());
  std::vector<std::string> commands = line.config.strings("command");
  if (commands.empty()) commands = {"train"};
  for (const std::string& name : commands) {
    if (!line.config.is_block(name)) continue;
    const config::Record command = line.config.block(name);
    for (const char* key : {"reader", "cvReader"})
      if (command.is_block(key)) add_files(command.block(key), request.data);
    if (const std::string model = model_of(command); !model.empty() && request.output == ".")
      request.output = fs::path(model).has_parent_path() ? fs::path(model).parent_path().string() : ".";
  }
}

}  // namespace

Request read_request(const std::vector<std::string>& words) {
  Request request;
  request.launch = launch::parse_words(words);
  if (request.launch.help) return request;
  launch::refuse_restarts(request.launch);
  for (const std::string& word : request.launch.arguments)
    if (word.find('=') == word.npos && !word.starts_with('-'))
      throw Error(fmt::format("doctor: '{}' is not understood\nfix: trainer doctor --help", word));
  if (!request.launch.arguments.empty()) read_config(request.launch.arguments, request);
  if (request.launch.ranks == 0) request.launch.ranks = launch::default_ranks(2);
  request.directory = fs::current_path().string();
  request.output = fs::absolute(request.output).lexically_normal().string();
  request.launch.arguments = to_words(request);
  return request;
}

std::vector<std::string> to_words(const Request& request) {
  std::vector<std::string> words{"doctor-rank", request.directory, request.output};
  words.insert(words.end(), request.data.begin(), request.data.end());
  return words;
}

Request from_words(const std::vector<std::string>& words) {
  Request request;
  if (words.size() < 2) return request;
  request.directory = words[0], request.output = words[1];
  request.data.assign(words.begin() + 2, words.end());
  return request;
}

}  // namespace tutti::doctor
