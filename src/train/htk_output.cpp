// SPDX-License-Identifier: Apache-2.0
#include "train/htk_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>

#include "reader/htk/htk_file.h"
#include "train/file.h"
#include "tutti/error.h"
#include "tutti/log.h"

namespace tutti {

void HtkOutputOptions::describe(config::Fields& f) {
  f("dim", dim, "values per frame");
  f.required("dim");
  f("scpFile", list, "a list of the files to write, one per utterance, in the order of the reader");
  f.alias("file", "scpFile");
  f.required("scpFile");
  f("type", type, "Real");
  if (f.given("dim") && (dim < 1 || dim > reader::most_htk_numbers))
    f.problem("dim", fmt::format("a frame of {} numbers does not fit into an HTK file", dim),
              fmt::format("1 to {}; outputPath writes text", reader::most_htk_numbers));
  if (type != "Real" && type != "real") f.problem("type", fmt::format("there is no type '{}'", type), "type = Real");
}

std::vector<std::string> read_output_list(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw Error(fmt::format("the file '{}' cannot be read: {}", path, std::strerror(errno)));
  std::vector<std::string> files;
  for (std::string line; std::getline(in, line);) {
    while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back()))) line.pop_back();
    if (!line.empty()) files.push_back(line);
  }
  return files;
}

HtkOutput::HtkOutput(std::string node, const HtkOutputOptions& options)
    : node_(std::move(node)), options_(options), files_(read_output_list(options.list)) {}

void HtkOutput::write(const Network::Output& output, std::span<const std::int64_t> sequence_begin, std::int64_t) {
  const std::size_t n = output.shape.elements();
  if (n != static_cast<std::size_t>(options_.dim))
    throw Error(
        fmt::format("write: the node '{}' has {} values per frame, its writer says dim = {}", node_, n, options_.dim));
  if (!output.per_sample)
    throw Error(fmt::format("write: the node '{}' has one value for all data, not one per frame", node_));
  for (std::size_t s = 0; s + 1 < sequence_begin.size(); ++s) {
    const auto first = static_cast<std::size_t>(sequence_begin[s]),
               last = static_cast<std::size_t>(sequence_begin[s + 1]);
    if (next_ == files_.size())
      throw Error(fmt::format("write: '{}' lists {} files, and the data have more utterances", options_.list, next_));
    const std::string& path = files_[next_++];
    const auto values = output.values.subspan(first * n, (last - first) * n);
    const auto wrong = std::count_if(values.begin(), values.end(), [](float v) { return !std::isfinite(v); });
    if (wrong > 0) log::warning(fmt::format("{} values in '{}' are not finite", wrong, path));
    create_directories(directory_of(path));
    reader::write_htk_file(path, n, values);
    log::line(fmt::format("evaluate: writing {} frames of {}", last - first, path));
  }
}

void HtkOutput::finish() {
  if (next_ < files_.size())
    log::warning(fmt::format("'{}' lists {} files, and the data have {} utterances: the others were not written",
                             options_.list, files_.size(), next_));
}

}  // namespace tutti
