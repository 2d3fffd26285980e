// SPDX-License-Identifier: Apache-2.0
// edit_script.h -- runs a script of the model editing language (action = edit with editPath). The caller provides the
// file operations, so that a script can be checked without changing files.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tutti/builder.h"

namespace tutti::brainscript {

struct EditFiles {
  std::function<graph::Graph(const std::string& path)> load;
  std::function<void(const std::string& path, graph::Graph)> save;
  // As text; `nodes` by name, empty for all.
  std::function<void(const std::string& path, graph::Graph, const std::vector<std::string>& nodes, bool values)> dump;
};

class EditScript {
 public:
  // Reads the file that `editPath` of the command names, and its ndlMacros. Throws ConfigError.
  explicit EditScript(const config::Record& command);
  ~EditScript();
  EditScript(EditScript&&) noexcept;
  // The paths of SaveModel and SaveDefaultModel, known before anything runs.
  std::vector<std::string> saved_models() const;
  void run(const EditFiles&, const BuildContext&) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::brainscript
