// SPDX-License-Identifier: Apache-2.0
// The file that an include names.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>

#include "brainscript/syntax.h"

namespace tutti::brainscript {
namespace {

namespace fs = std::filesystem;

std::optional<fs::path> find_include(const Program& program, const SourceText& from, const std::string& wanted) {
  std::error_code ignored;
  std::vector<fs::path> places = {fs::path(wanted)};
  if (!fs::path(wanted).is_absolute()) {
    places.push_back(fs::path(from.source->name).parent_path() / wanted);
    for (const auto& p : program.include_path) places.push_back(p / wanted);
    const fs::path self = fs::read_symlink("/proc/self/exe", ignored);
    if (!self.empty()) places.push_back(self.parent_path() / wanted);
  }
  for (const auto& p : places)
    if (fs::is_regular_file(p, ignored)) return p.lexically_normal();
  return std::nullopt;
}

}  // namespace

const SourceText* open_include(Program& program, const SourceText& from, const Token& name,
                               std::vector<std::string>& including) {
  const auto fail = [&](std::string message, std::string fix) {
    throw ConfigError(name.where.pos(), std::move(message), std::move(fix));
  };
  const auto path = find_include(program, from, name.text);
  if (!path)
    fail(fmt::format("cannot find '{}'", name.text),
         "give its path from here, from the directory of the config file, or in full");
  if (std::ranges::count(including, path->string()) > 0)
    fail(fmt::format("'{}' includes itself", name.text), "remove this include");
  if (including.size() > 50) fail("includes are nested more than 50 deep", "remove this include");
  including.push_back(path->string());
  std::ifstream file(*path, std::ios::binary);
  std::string contents{std::istreambuf_iterator<char>(file), {}};
  if (!file) fail(fmt::format("cannot read '{}'", path->string()), "check its permissions");
  auto origin = std::make_shared<SourcePos>(name.where.pos());
  auto source = std::make_shared<Source>(Source{path->string(), std::move(contents), origin});
  return program.add_text({source->text, source, 0, from.library});
}

}  // namespace tutti::brainscript
