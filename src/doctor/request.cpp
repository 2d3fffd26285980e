// SPDX-License-Identifier: Apache-2.0
#include "doctor/request.h"

#include <fmt/format.h>

#include <filesystem>
#include <ranges>

#include "config/command_line.h"
#include "tutti/error.h"

namespace tutti::doctor {
namespace {

namespace fs = std::filesystem;

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
      if (command.is_block(key)) add_data(command.block(key), request.data);
    if (const std::string model = model_of(command); !model.empty() && request.output == ".")
      request.output = fs::path(model).has_parent_path() ? fs::path(model).parent_path().string() : ".";
  }
  request.has_config = true;
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
  for (const DataItem& item : request.data | std::views::take(kMostItems)) {
    words.push_back(item.path);
    words.push_back(static_cast<char>(item.kind) + item.prefix);
  }
  return words;
}

Request from_words(const std::vector<std::string>& words) {
  Request request;
  if (words.size() < 2) return request;
  request.directory = words[0], request.output = words[1];
  for (std::size_t i = 2; i + 1 < words.size() && !words[i + 1].empty(); i += 2)
    request.data.push_back({static_cast<DataItem::Kind>(words[i + 1][0]), words[i], words[i + 1].substr(1)});
  return request;
}

}  // namespace tutti::doctor
