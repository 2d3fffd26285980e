// SPDX-License-Identifier: Apache-2.0
// file_names.h -- names of files, and of the models that a training writes.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

namespace tutti {

// One form of all ways to write the path of a file: "a.dnn", "./a.dnn", an absolute path, a path through a link.
inline std::filesystem::path same_file(const std::string& path) {
  std::error_code failed;
  const std::filesystem::path whole = std::filesystem::absolute(path, failed);
  const std::filesystem::path found = std::filesystem::weakly_canonical(whole, failed);
  return failed ? whole.lexically_normal() : found;
}

// The modelPath of the training that writes "model.dnn.3" or "model.dnn.best"; other paths are returned unchanged.
inline std::string without_epoch(const std::string& path) {
  const std::size_t dot = std::min(path.rfind('.'), path.size());
  const std::string_view end = std::string_view(path).substr(std::min(dot + 1, path.size()));
  const bool epoch = !end.empty() && end.find_first_not_of("0123456789") == std::string_view::npos;
  return epoch || end == "best" ? path.substr(0, dot) : path;
}

}  // namespace tutti
