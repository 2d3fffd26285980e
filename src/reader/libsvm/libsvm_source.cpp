// SPDX-License-Identifier: Apache-2.0
// Header: rows and batches (64 bits), numbers of feature and label streams (32 bits), for each its name with the length
// in front and its size; the place of each batch behind this table. A batch: its samples; for each feature stream the
// number of items, values, rows, and where each sample begins; for each label stream all numbers.
#include "reader/libsvm/libsvm_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "reader/reader_row.h"

namespace tutti::reader {
namespace {

template <class T>
T load_number(const char* from) {
  T v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

// A stream of the file under another name.
struct RenameBlock {
  std::string name;
  void describe(config::Fields& f) {
    f("rename", name, "name of the network's input that receives the stream named by the block");
    f.no_effect("dim", "the file says how many numbers a stream has");
    f.no_effect("labelDim", "the file says how many numbers a stream has");
    f.no_effect("labelType", "labels are numbers as they stand in the file");
  }
};

}  // namespace

float LibsvmFile::Batch::number(const char* from, std::size_t i) const {
  return number_size == 4 ? load_number<float>(from + 4 * i) : static_cast<float>(load_number<double>(from + 8 * i));
}

std::int32_t LibsvmFile::Batch::row(std::size_t stream, std::size_t item) const {
  return load_number<std::int32_t>(features[stream].rows + 4 * item);
}

LibsvmFile::Items LibsvmFile::Batch::items(std::size_t stream, std::size_t sample) const {
  const char* columns = features[stream].columns + 4 * sample;
  const auto begin = load_number<std::int32_t>(columns), end = load_number<std::int32_t>(columns + 4);
  if (begin < 0 || end < begin || static_cast<std::size_t>(end) > features[stream].items) return {1, 0};
  return {static_cast<std::size_t>(begin), static_cast<std::size_t>(end)};
}

void LibsvmFile::damaged(const std::string& what) const {
  throw Error(fmt::format("reading '{}': {}; it is no file of LibSVMBinaryReader, or it is damaged", path(), what));
}

template <class T>
T LibsvmFile::take(std::size_t& at, const char* what) const {
  if (file_.bytes().size() - at < sizeof(T)) damaged(fmt::format("the file ends at byte {} within {}", at, what));
  return load_number<T>(file_.bytes().data() + std::exchange(at, at + sizeof(T)));
}

std::vector<LibsvmFile::Stream> LibsvmFile::take_streams(std::size_t count, std::size_t& at) const {
  std::vector<Stream> streams;
  for (std::size_t i = 0; i < count; ++i) {
    const auto length = take<std::int32_t>(at, "the header");
    if (length < 0 || static_cast<std::size_t>(length) > file_.bytes().size() - at)
      damaged(fmt::format("byte {} says that a name has {} characters", at - 4, length));
    std::string name(file_.bytes().substr(at, static_cast<std::size_t>(length)));
    at += name.size();
    const auto dim = take<std::int32_t>(at, "the header");
    if (dim < 1) damaged(fmt::format("stream '{}' has {} numbers", name, dim));
    streams.push_back({std::move(name), static_cast<std::size_t>(dim)});
  }
  return streams;
}

LibsvmFile::LibsvmFile(const std::string& path) : file_(path) {
  std::size_t at = 0;
  take<std::int64_t>(at, "the header");  // rows; the batches say it again
  const auto batches = take<std::int64_t>(at, "the header");
  const auto features = take<std::int32_t>(at, "the header"), labels = take<std::int32_t>(at, "the header");
  constexpr std::int32_t most_streams = 10'000;
  if (features < 0 || labels < 0 || features > most_streams || labels > most_streams || features + labels == 0)
    damaged(fmt::format("it says that it has {} feature and {} label streams", features, labels));
  features_ = take_streams(static_cast<std::size_t>(features), at);
  labels_ = take_streams(static_cast<std::size_t>(labels), at);
  const std::size_t rest = file_.bytes().size() - at;
  if (batches < 1 || static_cast<std::uint64_t>(batches) > rest / 8)
    damaged(fmt::format("it says that it has {} batches", batches));
  const std::size_t data = at + 8 * static_cast<std::size_t>(batches);
  for (std::int64_t b = 0; b < batches; ++b) {
    const auto offset = take<std::int64_t>(at, "the table of batches");
    const std::size_t before = offsets_.empty() ? data : offsets_.back();
    if (offset < 0 || static_cast<std::uint64_t>(offset) > file_.bytes().size() - data ||
        data + static_cast<std::size_t>(offset) < before)
      damaged(fmt::format("batch {} lies at {}", b, offset));
    offsets_.push_back(data + static_cast<std::size_t>(offset));
  }
}

// Whether the batch fills its place with numbers of that size.
bool LibsvmFile::lay_out(std::size_t at, std::size_t end, std::size_t number_size, Batch& b) const {
  const auto has = [&](std::size_t count, std::size_t size) { return count <= (end - at) / size; };
  const auto part = [&](std::size_t bytes) { return file_.bytes().data() + std::exchange(at, at + bytes); };
  const auto count = [&](std::size_t& n) {
    if (!has(1, 4)) return false;
    const auto v = load_number<std::int32_t>(part(4));
    n = static_cast<std::size_t>(std::max(v, 0));
    return v >= 0;
  };
  b.number_size = number_size;
  b.features.clear(), b.labels.clear();
  if (!count(b.samples)) return false;
  for (std::size_t f = 0; f < features_.size(); ++f) {
    Batch::Features& s = b.features.emplace_back();
    if (!count(s.items) || !has(s.items, number_size + 4)) return false;
    s.values = part(s.items * number_size);
    s.rows = part(s.items * 4);
    if (!has(b.samples + 1, 4)) return false;
    s.columns = part((b.samples + 1) * 4);
  }
  for (const Stream& s : labels_) {
    if (!has(b.samples, number_size * s.dim)) return false;
    b.labels.push_back(part(b.samples * s.dim * number_size));
  }
  return at == end;
}

void LibsvmFile::find(std::size_t batch, Batch& b) const {
  const std::size_t begin = offsets_[batch],
                    end = batch + 1 < offsets_.size() ? offsets_[batch + 1] : file_.bytes().size();
  if (lay_out(begin, end, 4, b) || lay_out(begin, end, 8, b)) return;
  damaged(fmt::format("batch {} of {}, bytes {} to {}, is not as long as what it holds", batch, offsets_.size(), begin,
                      end));
}

LibsvmSource::LibsvmSource(const LibsvmReaderOptions& options)
    : file_(options.file), budget_(options.file, options.max_errors, options.trace_level) {
  const auto name = [&](const std::string& in_file) {
    return options.renamed.contains(in_file) ? options.renamed.at(in_file) : in_file;
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

void LibsvmReaderOptions::describe(config::Fields& f) {
  f("file", file, "the binary file");
  f.required("file");
  order.describe(f);
  describe_faults(f, "number of faulty samples to tolerate; they are skipped");
  f.no_effect("minibatch", "minibatches are formed independently of the batches in the file");
  f.no_effect("minibatchMode", "minibatches end with the sweep, which is partial");
  f.no_effect("prefetch", "the next minibatches are always prepared in the background");
  f.no_effect("verbosity", "traceLevel decides what is shown");
}

Made read_libsvm(const config::Record& block, const std::string& title, const ReaderContext& context) {
  const auto o = new_options<LibsvmReaderOptions>(context);
  std::vector<std::string> also{"readerType"};
  for (const std::string& key : block.keys()) {
    if (!block.is_block(key)) continue;
    also.push_back(key);
    RenameBlock b;
    read_block(b, block.block(key), key, context, {});
    if (!b.name.empty()) o->renamed[key] = b.name;
  }
  read_block(*o, block, title, context, also);
  check_file(block, "file", o->file, context);
  return made<LibsvmSource>(o, o->order.randomization(trains(context)));
}

}  // namespace tutti::reader
