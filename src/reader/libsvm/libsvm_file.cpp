// SPDX-License-Identifier: Apache-2.0
// Header: rows and batches (64 bits), numbers of feature and label streams (32 bits), for each its name with the length
// in front and its size; the place of each batch behind this table. A batch: its samples; for each feature stream the
// number of items, values, rows, and where each sample begins; for each label stream all numbers.
#include "reader/libsvm/libsvm_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tutti/error.h"

namespace tutti::reader {
namespace {

template <class T>
T load_number(const char* from) {
  T v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

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
  const T v = load_number<T>(file_.bytes().data() + at);
  at += sizeof(T);
  return v;
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
bool LibsvmFile::lay_out(std::size_t begin, std::size_t end, std::size_t number_size, Batch& b) const {
  const char* const data = file_.bytes().data();
  std::size_t at = begin;
  const auto has = [&](std::size_t count, std::size_t size) { return count <= (end - at) / size; };
  const auto part = [&](std::size_t bytes) {
    const char* p = data + at;
    at += bytes;
    return p;
  };
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

}  // namespace tutti::reader
