// SPDX-License-Identifier: Apache-2.0
// Samples of binary files, each a sequence of its own.
#include "reader/libsvm/libsvm_source.h"

#include <fmt/format.h>

#include <cmath>

namespace tutti::reader {

LibsvmSource::LibsvmSource(const LibsvmSourceOptions& options)
    : file_(options.path), budget_(options.path, options.max_errors, options.trace_level) {
  const auto name = [&](const std::string& in_file) {
    const auto found = options.renamed.find(in_file);
    return found == options.renamed.end() ? in_file : found->second;
  };
  for (const auto& s : file_.features()) infos_.push_back({name(s.name), s.dim, true});
  for (const auto& s : file_.labels()) infos_.push_back({name(s.name), s.dim, false});
}

std::string LibsvmSource::fault_of(const LibsvmFile::Batch& b, std::size_t sample) const {
  for (std::size_t f = 0; f < file_.features().size(); ++f) {
    const auto& stream = file_.features()[f];
    const LibsvmFile::Items items = b.items(f, sample);
    if (items.begin > items.end) return fmt::format("stream '{}' says wrongly where its items lie", stream.name);
    for (std::size_t i = items.begin; i < items.end; ++i) {
      if (const std::int32_t row = b.row(f, i); row < 0 || static_cast<std::size_t>(row) >= stream.dim)
        return fmt::format("stream '{}' has index {}, outside 0 to {}", stream.name, row, stream.dim - 1);
      if (!std::isfinite(b.number(b.features[f].values, i)))
        return fmt::format("stream '{}' has a value that is no finite number", stream.name);
    }
  }
  for (std::size_t l = 0; l < file_.labels().size(); ++l) {
    const auto& stream = file_.labels()[l];
    for (std::size_t i = 0; i < stream.dim; ++i)
      if (!std::isfinite(b.number(b.labels[l], sample * stream.dim + i)))
        return fmt::format("stream '{}' has a value that is no finite number", stream.name);
  }
  return {};
}

std::string LibsvmSource::name_of(const Place& p) const {
  return fmt::format("{}: sample {} of batch {}", file_.path(), p.sample, p.batch);
}

const SequenceIndex& LibsvmSource::index() {
  if (index_.sequences() > 0) return index_;
  std::size_t dropped = 0;
  for (std::size_t batch = 0; batch < file_.batches(); ++batch) {
    file_.find(batch, batch_);
    bool first = true;
    for (std::size_t sample = 0; sample < batch_.samples; ++sample) {
      const Place place{static_cast<std::uint32_t>(batch), static_cast<std::uint32_t>(sample)};
      if (const std::string fault = fault_of(batch_, sample); !fault.empty()) {
        budget_.fault(fmt::format("{}: {}", name_of(place), fault), "the sample is left out where maxErrors allows it");
        ++dropped;
        continue;
      }
      if (std::exchange(first, false)) index_.begin_chunk();
      if (index_.sequences() + 1 == SequenceIndex::most_sequences)
        throw Error(fmt::format("reading '{}': too many samples", file_.path()));
      index_.add(1);
      places_.push_back(place);
    }
  }
  found_ = file_.batches() - 1;
  if (index_.sequences() == 0)
    throw ConfigError({}, fmt::format("{}: the file has no usable sample", file_.path()), "see docs/readers/tables.md");
  budget_.summarize(dropped);
  return index_;
}

void LibsvmSource::read(std::span<const std::uint32_t> sequences, Share& share) {
  for (const std::uint32_t sequence : sequences) {
    const Place p = places_[sequence];
    if (p.batch != found_) file_.find(found_ = p.batch, batch_);
    for (std::size_t f = 0; f < file_.features().size(); ++f) {
      StreamBuffer& out = share[f];
      const LibsvmFile::Items items = batch_.items(f, p.sample);
      for (std::size_t i = items.begin; i < items.end; ++i) {
        out.indices.push_back(batch_.row(f, i));
        out.values.push_back(batch_.number(batch_.features[f].values, i));
      }
      out.end_sparse();
    }
    for (std::size_t l = 0; l < file_.labels().size(); ++l) {
      const std::size_t dim = file_.labels()[l].dim;
      float* column = share[file_.features().size() + l].add_dense();
      for (std::size_t i = 0; i < dim; ++i) column[i] = batch_.number(batch_.labels[l], p.sample * dim + i);
    }
  }
  share.end_single_samples(sequences.size());
}

std::string LibsvmSource::place(std::uint32_t sequence) { return name_of(places_[sequence]); }

}  // namespace tutti::reader
