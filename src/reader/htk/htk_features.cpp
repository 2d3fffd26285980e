// SPDX-License-Identifier: Apache-2.0
// Headers are read with the list, frames when a minibatch needs them.
#include "reader/htk/htk_features.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "reader/lines.h"

namespace tutti::reader {
namespace {

// "[first,last]" at the end of the text is cut off and read; false when it is there and wrong.
bool cut_range(std::string_view& text, std::optional<std::pair<std::uint32_t, std::uint32_t>>& frames) {
  if (!text.ends_with(']')) return true;
  const std::size_t open = text.rfind('['), comma = text.rfind(',');
  std::uint32_t first = 0, last = 0;
  if (open == std::string_view::npos || comma == std::string_view::npos || comma < open ||
      !read_whole(text.substr(open + 1, comma - open - 1), first) ||
      !read_whole(text.substr(comma + 1, text.size() - comma - 2), last) || last < first || last == UINT32_MAX)
    return false;
  frames = {first, last};
  text = text.substr(0, open);
  return true;
}

}  // namespace

// Without a prefix, "..." at the start of a path is the directory of the list.
bool read_scp_entry(const HtkFeatureOptions& options, std::string_view line, ScpEntry& e) {
  const std::size_t equals = line.find('=');
  if (!cut_range(line, e.frames) || line.empty() || equals == 0 || equals + 1 == line.size()) return false;
  const bool named = equals != std::string_view::npos;
  e.path = named ? line.substr(equals + 1) : line;
  e.key = without_extension(named ? std::string(line.substr(0, equals)) : e.path);
  if (const std::string& prefix = options.prefix; !prefix.empty()) {
    if (e.path.front() != '/') e.path = prefix + (prefix.ends_with('/') ? "" : "/") + e.path;
  } else if (e.path.starts_with(".../")) {
    const std::string folder = std::filesystem::path(options.scp).parent_path().string();
    e.path = (folder.empty() ? std::string(".") : folder) + e.path.substr(3);
  }
  return true;
}

HtkFeatures::HtkFeatures(const std::string& name, HtkFeatureOptions options, FaultBudget& budget)
    : UtteranceStream({name, static_cast<std::size_t>(options.dim), false}), options_(std::move(options)) {
  const std::string& scp = options_.scp;
  const bool read = each_line(scp, [&](std::size_t number, const std::string& line) {
    const auto fault = [&](std::string message, std::string fix) {
      budget.fault({line_place(scp, number, line, 0, line.size()), std::move(message), std::move(fix)});
    };
    ScpEntry e;
    if (!read_scp_entry(options_, line, e))
      return fault(fmt::format("'{}' names no utterance", line),
                   "a line is [logical.name=]file[firstFrame,lastFrame], both frames inclusive");
    try {
      add(e, number);
    } catch (const Error& error) {
      dropped_.insert(e.key);
      fault(error.what(), {});
    }
  });
  if (!read) throw Error(fmt::format("reading the script file '{}': {}", scp, std::strerror(errno)));
  index_names([&](std::size_t u) {
    budget.fault({line_place(scp, utterances_[u].line, utterances_[u].key),
                  fmt::format("a second utterance with the name '{}'", utterances_[u].key),
                  "names are what streams are joined by; give each utterance its own: name=file"});
  });
}

std::uint32_t HtkFeatures::file(const std::string& path) {
  if (const auto known = file_numbers_.find(path); known != file_numbers_.end()) return known->second;
  if (const auto bad = broken_.find(path); bad != broken_.end()) throw Error(bad->second);
  try {
    files_.push_back({path, read_htk_header(path)});
  } catch (const Error& e) {
    broken_.emplace(path, e.what());
    throw;
  }
  return file_numbers_.emplace(path, static_cast<std::uint32_t>(files_.size() - 1)).first->second;
}

// The first file tells how many numbers a frame has, and so how many neighbours make up dim.
void HtkFeatures::decide_context(const File& f) {
  const std::uint32_t frame_dim = f.header.dim;
  const auto& context = options_.context.values;
  if (context.empty()) {
    const std::int64_t window = options_.dim / frame_dim;
    if (options_.dim % frame_dim != 0 || window % 2 == 0)
      throw ConfigError({},
                        fmt::format("stream '{}': dim = {} is no odd multiple of the {} numbers of a frame in '{}'",
                                    info_.name, options_.dim, frame_dim, f.path),
                        "contextWindow = L:R says how many neighbours a frame has on either side");
    left_ = right_ = window / 2;
  } else {
    left_ = context.size() == 1 ? (context[0] - 1) / 2 : context[0];
    right_ = context.size() == 1 ? left_ : context[1];
  }
  const std::int64_t window = left_ + right_ + 1;
  if (window * frame_dim != options_.dim)
    throw ConfigError({},
                      fmt::format("stream '{}': {} frames of {} numbers (in '{}') are {} numbers, but dim is {}",
                                  info_.name, window, frame_dim, f.path, window * frame_dim, options_.dim),
                      "dim counts the numbers of a frame together with its neighbours");
  frame_dim_ = frame_dim;
}

void HtkFeatures::add(const ScpEntry& e, std::size_t line) {
  const std::uint32_t number = file(e.path);
  const File& f = files_[number];
  if (frame_dim_ == 0) decide_context(f);
  if (f.header.dim != frame_dim_)
    throw Error(fmt::format("the HTK file '{}' has {} numbers per frame, the files before have {}", e.path,
                            f.header.dim, frame_dim_));
  const std::uint32_t first = e.frames ? e.frames->first : 0;
  const std::uint32_t behind = e.frames ? e.frames->second + 1 : f.header.frames;
  if (behind > f.header.frames)
    throw Error(fmt::format("frames {} to {} are requested from the HTK file '{}', which has {}", first, behind - 1,
                            e.path, f.header.frames));
  if (behind == first) throw Error(fmt::format("the HTK file '{}' has no frames", e.path));
  if (options_.expands && behind - first != 1)
    throw Error(fmt::format("expandToUtterance needs one frame per utterance, but there are {}", behind - first));
  utterances_.push_back({e.key, behind - first, static_cast<std::uint32_t>(line), number, first});
  bytes_ += std::uint64_t{behind - first} * frame_dim_ * sizeof(float);
}

std::string HtkFeatures::place(std::size_t u) const { return fmt::format("{}:{}", options_.scp, utterances_[u].line); }

const float* HtkFeatures::rows(std::size_t utterance, std::uint32_t first, std::uint32_t count) {
  const Utterance& u = utterances_[utterance];
  const File& f = files_[u.file];
  if (!kept_.empty()) {
    Buffer<float>& kept = kept_[utterance];
    if (kept.size() == 0) {
      Buffer<float> fresh;
      reading_.read(f.path, f.header, u.first, u.frames, fresh.extend(std::size_t{u.frames} * frame_dim_));
      kept = std::move(fresh);
    }
    return kept.data() + std::size_t{first} * frame_dim_;
  }
  // Damage leaves out all frames of the utterance, whichever of them this rank reads first.
  checked_.resize(utterances_.size());
  const bool whole = !checked_[utterance];
  const std::uint32_t begin = whole ? 0 : first, frames = whole ? u.frames : count;
  scratch_.clear();
  float* const out = scratch_.extend(std::size_t{frames} * frame_dim_);
  reading_.read(f.path, f.header, std::uint64_t{u.first} + begin, frames, out);
  checked_[utterance] = true;
  return out + std::size_t{first - begin} * frame_dim_;
}

void HtkFeatures::append(std::size_t utterance, std::uint32_t first, std::uint32_t count, StreamBuffer& to) {
  const std::int64_t last = options_.expands ? 0 : std::int64_t{utterances_[utterance].frames} - 1;
  // The required frames, including context; edge frames replace missing neighbours.
  const std::int64_t low = std::clamp<std::int64_t>(std::int64_t{first} - left_, 0, last);
  const std::int64_t high = std::clamp<std::int64_t>(std::int64_t{first} + count - 1 + right_, 0, last);
  const float* data = rows(utterance, static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(high - low + 1));
  for (std::int64_t t = first; t < std::int64_t{first} + count; ++t) {
    float* out = to.add_dense();
    const std::int64_t center = std::min(t, last);
    for (std::int64_t n = center - left_; n <= center + right_; ++n, out += frame_dim_)
      std::copy_n(data + (std::clamp<std::int64_t>(n, 0, last) - low) * frame_dim_, frame_dim_, out);
  }
}

}  // namespace tutti::reader
