// SPDX-License-Identifier: Apache-2.0
// Headers are read with the list, frames when a minibatch needs them.
#include "reader/htk/htk_features.h"

#include <fmt/format.h>

#include <algorithm>

namespace tutti::reader {

HtkFeatures::HtkFeatures(HtkFeatureOptions options, FaultBudget& budget)
    : options_(std::move(options)), info_{options_.name, static_cast<std::size_t>(options_.dim), false} {
  for (const ScpEntry& e : read_scp(options_.scp, options_.prefix, budget)) try {
      add(e);
    } catch (const Error& error) {
      budget.fault({line_place(options_.scp, e.line, e.text, 0, e.text.size()), error.what(), {}});
    }
  for (std::size_t u = 0; u < utterances_.size(); ++u)
    if (!by_key_.emplace(utterances_[u].key, u).second)
      budget.fault({line_place(options_.scp, utterances_[u].line, utterances_[u].key),
                    fmt::format("a second utterance with the name '{}'", utterances_[u].key),
                    "names are what streams are joined by; give each utterance its own: name=file"});
}

const HtkFeatures::File& HtkFeatures::file(const std::string& path, std::uint32_t& number) {
  const auto known = file_numbers_.find(path);
  if (known != file_numbers_.end()) {
    number = known->second;
    return files_[number];
  }
  if (const auto bad = broken_.find(path); bad != broken_.end()) throw Error(bad->second);
  try {
    files_.push_back({path, read_htk_header(path)});
  } catch (const Error& e) {
    broken_.emplace(path, e.what());
    throw;
  }
  number = static_cast<std::uint32_t>(files_.size() - 1);
  file_numbers_.emplace(path, number);
  return files_.back();
}

// The first file tells how many numbers a frame has, and so how many neighbours make up dim.
void HtkFeatures::decide_context(const File& f) {
  const std::uint32_t frame_dim = f.header.dim;
  if (options_.left < 0) {
    const std::int64_t window = options_.dim / frame_dim;
    if (options_.dim % frame_dim != 0 || window % 2 == 0)
      throw ConfigError({},
                        fmt::format("stream '{}': dim = {} is no odd multiple of the {} numbers of a frame in '{}'",
                                    options_.name, options_.dim, frame_dim, f.path),
                        "contextWindow = L:R says how many neighbours a frame has on either side");
    options_.left = options_.right = window / 2;
  }
  const std::int64_t window = options_.left + options_.right + 1;
  if (window * frame_dim != options_.dim)
    throw ConfigError({},
                      fmt::format("stream '{}': {} frames of {} numbers (in '{}') are {} numbers, but dim is {}",
                                  options_.name, window, frame_dim, f.path, window * frame_dim, options_.dim),
                      "dim counts the numbers of a frame together with its neighbours");
  frame_dim_ = frame_dim;
}

void HtkFeatures::add(const ScpEntry& e) {
  std::uint32_t number = 0;
  const File& f = file(e.path, number);
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
  utterances_.push_back({e.key, number, first, behind - first, static_cast<std::uint32_t>(e.line), {}});
  bytes_ += std::uint64_t{behind - first} * frame_dim_ * sizeof(float);
}

std::size_t HtkFeatures::find(std::string_view key) const {
  const auto known = by_key_.find(key);
  return known == by_key_.end() ? none : known->second;
}

std::string HtkFeatures::place(std::size_t u) const { return fmt::format("{}:{}", options_.scp, utterances_[u].line); }

const float* HtkFeatures::rows(Utterance& u, std::uint32_t first, std::uint32_t count) {
  const File& f = files_[u.file];
  if (keep_) {
    if (u.kept.size() == 0) {
      Buffer<float> fresh;
      reading_.read(f.path, f.header, u.first, u.frames, fresh.extend(std::size_t{u.frames} * frame_dim_));
      u.kept = std::move(fresh);
    }
    return u.kept.data() + std::size_t{first} * frame_dim_;
  }
  scratch_.clear();
  float* out = scratch_.extend(std::size_t{count} * frame_dim_);
  reading_.read(f.path, f.header, std::uint64_t{u.first} + first, count, out);
  return out;
}

void HtkFeatures::append(std::size_t utterance, std::uint32_t first, std::uint32_t count, StreamBuffer& to) {
  Utterance& u = utterances_[utterance];
  const std::int64_t last = options_.expands ? 0 : std::int64_t{u.frames} - 1;
  // The required frames, including context; edge frames replace missing neighbours.
  const std::int64_t low = std::clamp<std::int64_t>(std::int64_t{first} - options_.left, 0, last);
  const std::int64_t high = std::clamp<std::int64_t>(std::int64_t{first} + count - 1 + options_.right, 0, last);
  const float* data = rows(u, static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(high - low + 1));
  for (std::int64_t t = first; t < std::int64_t{first} + count; ++t) {
    float* out = to.add_dense();
    const std::int64_t center = std::min(t, last);
    for (std::int64_t n = center - options_.left; n <= center + options_.right; ++n, out += frame_dim_)
      std::copy_n(data + (std::clamp<std::int64_t>(n, 0, last) - low) * frame_dim_, frame_dim_, out);
  }
}

}  // namespace tutti::reader
