// SPDX-License-Identifier: Apache-2.0
// safetensors: the length of the header in 8 bytes, the header in JSON (name -> dtype, shape, data_offsets), then the
// values of all tensors without holes. A header is read by hand: its grammar is small, and errors name the byte.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>

#include "interchange/json_scanner.h"
#include "interchange/npy.h"
#include "interchange/tensor_file.h"
#include "train/file.h"
#include "tutti/error.h"

namespace tutti::interchange {
namespace {

constexpr std::uint64_t most_header = 100'000'000;  // the format's own limit
constexpr std::size_t length_bytes = 8, alignment = 8;

const std::map<std::string, NumberKind, std::less<>> dtypes = {
    {"BOOL", NumberKind::boolean}, {"I8", NumberKind::int8},       {"U8", NumberKind::uint8},
    {"I16", NumberKind::int16},    {"U16", NumberKind::uint16},    {"I32", NumberKind::int32},
    {"U32", NumberKind::uint32},   {"I64", NumberKind::int64},     {"U64", NumberKind::uint64},
    {"F16", NumberKind::float16},  {"BF16", NumberKind::bfloat16}, {"F32", NumberKind::float32},
    {"F64", NumberKind::float64}};

class SafetensorsFile final : public TensorFile {
 public:
  explicit SafetensorsFile(const std::string& path) : path_(path), file_(File::open(path)), size_(file_.size()) {
    std::uint64_t length = 0;
    if (size_ < length_bytes) fail(0, "it is too short for a header");
    file_.read(0, std::as_writable_bytes(std::span(&length, 1)));
    if (length > most_header || length > size_ - length_bytes)
      fail(0, fmt::format("the header has {} bytes, but the file has {}", length, size_));
    std::string header(length, '\0');
    file_.read(length_bytes, std::as_writable_bytes(std::span(header)));
    data_ = length_bytes + length;
    JsonScanner scan(header, [this](std::size_t at, const std::string& what) { fail(length_bytes + at, what); });
    scan.members([&](const std::string& name, std::size_t at) {
      if (name == "__metadata__") return scan.skip();
      if (place_.contains(name)) fail(length_bytes + at, fmt::format("two tensors are called '{}'", name));
      read_tensor(scan, name, length_bytes + at);
    });
    scan.end();
    check_places();
    std::ranges::sort(entries_, {}, &TensorEntry::name);
  }

  std::vector<float> read(const TensorEntry& e) override {
    const Place& p = place_.at(e.name);
    std::vector<float> values((p.end - p.begin) / bytes_of(e.kind));
    if (e.kind == NumberKind::float32) {
      file_.read(data_ + p.begin, std::as_writable_bytes(std::span(values)));
      return values;
    }
    std::vector<std::byte> bytes(p.end - p.begin);
    file_.read(data_ + p.begin, bytes);
    to_floats(e.kind, bytes, values);
    return values;
  }

 private:
  struct Place {
    std::uint64_t begin = 0, end = 0;
    std::size_t at = 0;  // of the entry in the file
  };

  [[noreturn]] void fail(std::size_t at, const std::string& what) const {
    throw Error(fmt::format("'{}', byte {}: {}", path_, at,
                            with_fix(what,
                                     "it is no safetensors file, or it was cut or changed; copy it again from "
                                     "where it was made")));
  }

  void read_tensor(JsonScanner& scan, const std::string& name, std::size_t at) {
    TensorEntry e{name, {}, NumberKind::float32};
    std::string dtype;
    std::vector<std::uint64_t> offsets;
    bool has_shape = false;
    scan.members([&](const std::string& key, std::size_t) {
      if (key == "dtype")
        dtype = scan.text();
      else if (key == "shape")
        e.shape = scan.numbers(), has_shape = true;
      else if (key == "data_offsets")
        offsets = scan.numbers();
      else
        scan.skip();
    });
    if (dtype.empty() || !has_shape || offsets.size() != 2)
      fail(at, fmt::format("the tensor '{}' lacks one of dtype, shape and data_offsets", name));
    const auto known = dtypes.find(dtype);
    if (known == dtypes.end())
      fail(at, fmt::format("the tensor '{}' has the type {}, which is not read\nfix: save it as F32", name, dtype));
    e.kind = known->second;
    const Place p{offsets[0], offsets[1], at};
    if (p.begin > p.end || p.end > size_ - data_)
      fail(at,
           fmt::format("the tensor '{}' is at [{}, {}) of {} bytes of values", name, p.begin, p.end, size_ - data_));
    std::uint64_t bytes = bytes_of(e.kind);
    for (const std::uint64_t d : e.shape)
      if (__builtin_mul_overflow(bytes, d, &bytes)) fail(at, fmt::format("the tensor '{}' is too large", name));
    if (bytes != p.end - p.begin)
      fail(at, fmt::format("the tensor '{}' {} of {} needs {} bytes, its place has {}", name, shape_text(e.shape),
                           dtype, bytes, p.end - p.begin));
    place_[name] = p;
    entries_.push_back(std::move(e));
  }

  // The places follow each other from the first byte to the last.
  void check_places() const {
    std::vector<std::pair<Place, std::string>> all;
    for (const auto& [name, place] : place_) all.emplace_back(place, name);
    std::ranges::sort(all, {}, [](const auto& p) { return std::pair(p.first.begin, p.first.end); });
    std::uint64_t expected = 0;
    for (const auto& [place, name] : all) {
      if (place.begin != expected)
        fail(place.at, fmt::format("the tensor '{}' begins at byte {} of the values, the one before ends at {}", name,
                                   place.begin, expected));
      expected = place.end;
    }
    if (expected != size_ - data_)
      fail(data_ + expected, fmt::format("{} bytes of values belong to no tensor", size_ - data_ - expected));
  }

  std::string path_;
  File file_;
  std::uint64_t size_, data_ = 0;
  std::map<std::string, Place, std::less<>> place_;
};

}  // namespace

std::unique_ptr<TensorFile> open_safetensors(const std::string& path) {
  return std::make_unique<SafetensorsFile>(path);
}

void write_safetensors(const std::string& path, std::span<const Tensor> tensors) {
  std::string header = "{\"__metadata__\":{\"producer\":\"tutti\"}";
  std::uint64_t at = 0;
  for (const Tensor& t : tensors) {
    const std::uint64_t end = at + t.values.size_bytes();
    header += fmt::format(",{}:{{\"dtype\":\"F32\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", json_quoted(t.name),
                          fmt::join(reversed_axes(t.shape), ","), at, end);
    at = end;
  }
  header += "}";
  header.resize((header.size() + alignment - 1) / alignment * alignment, ' ');
  const std::uint64_t length = header.size();
  const std::string unfinished = path + ".tmp";
  create_directories(directory_of(path));
  File file = File::create(unfinished);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(std::as_bytes(std::span(header)));
  for (const Tensor& t : tensors) file.write(std::as_bytes(t.values));
  file.sync();
  file.close();
  rename_durably(unfinished, path);
}

}  // namespace tutti::interchange
