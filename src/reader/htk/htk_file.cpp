// SPDX-License-Identifier: Apache-2.0
// Big-endian frames.
#include "reader/htk/htk_file.h"
#include "base/host.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <vector>

#include "tutti/error.h"

namespace tutti::reader {
namespace {

constexpr std::size_t most_files_open = 64;
constexpr std::size_t header_bytes = 12;
// Parameter kinds: six bits of a base kind, then qualifiers.
constexpr unsigned base_mask = 077, compressed_bit = 02000;
constexpr unsigned waveform = 0, integer_reflections = 5, discrete = 10;

std::uint32_t big32(const char* p) {
  std::uint32_t v = 0;
  std::memcpy(&v, p, sizeof v);
  return __builtin_bswap32(v);
}
std::uint16_t big16(const char* p) {
  std::uint16_t v = 0;
  std::memcpy(&v, p, sizeof v);
  return __builtin_bswap16(v);
}
float big_float(const char* p) { return std::bit_cast<float>(big32(p)); }

[[noreturn]] void fail(const std::string& path, const std::string& why) {
  throw Error(fmt::format("reading the HTK file '{}': {}", path, why));
}

void read_exactly(const std::string& path, int fd, char* to, std::size_t bytes, std::uint64_t at) {
  while (bytes > 0) {
    const ssize_t n = ::pread(fd, to, bytes, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path, std::strerror(errno));
    if (n == 0) fail(path, "it ends too soon");
    to += n;
    bytes -= static_cast<std::size_t>(n);
    at += static_cast<std::uint64_t>(n);
  }
}

}  // namespace

HtkHeader read_htk_header(const std::string& path) {
  const Descriptor file(path);
  struct stat info {};
  if (file.get() < 0 || ::fstat(file.get(), &info) != 0) fail(path, std::strerror(errno));
  if (!S_ISREG(info.st_mode)) fail(path, "it is not a regular file");
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (size < header_bytes) fail(path, fmt::format("it has {} bytes, less than a header", size));
  char bytes[header_bytes];
  read_exactly(path, file.get(), bytes, header_bytes, 0);
  const std::uint32_t frames = big32(bytes);
  const std::uint16_t frame_bytes = big16(bytes + 8), kind = big16(bytes + 10);
  const unsigned base = kind & base_mask;
  HtkHeader h;
  h.compressed = (kind & compressed_bit) != 0;
  if (base == waveform || base == integer_reflections || base == discrete)
    fail(path, fmt::format("its frames are of kind {}: waveform samples or symbols, not features", base));
  const unsigned number = h.compressed ? 2 : 4;
  if (frame_bytes == 0 || frame_bytes % number != 0)
    fail(path, fmt::format("{} bytes per frame are not a multiple of {} bytes; is it an HTK feature file?", frame_bytes,
                           number));
  h.dim = frame_bytes / number;
  h.frame_bytes = frame_bytes;
  // The scales and offsets of compressed files take the place of four frames.
  if (h.compressed && frames < 4) fail(path, "it is compressed and ends before its scales");
  h.frames = h.compressed ? frames - 4 : frames;
  h.data_at = header_bytes + (h.compressed ? 8ull * h.dim : 0);
  if (const std::uint64_t wanted = h.data_at + h.frames * h.frame_bytes; size < wanted)
    fail(path, fmt::format("{} frames of {} bytes need {} bytes, but it has {}; it is cut off, or no HTK file",
                           h.frames, frame_bytes, wanted, size));
  return h;
}

void write_htk_file(const std::string& path, std::size_t dim, std::span<const float> values) {
  constexpr std::uint32_t period = 100'000;  // in units of 100 ns
  constexpr std::uint16_t user = 9;
  std::string bytes;
  const auto add = [&](auto v) { bytes.append(reinterpret_cast<const char*>(&v), sizeof v); };
  add(__builtin_bswap32(static_cast<std::uint32_t>(values.size() / dim)));
  add(__builtin_bswap32(period));
  add(__builtin_bswap16(static_cast<std::uint16_t>(dim * sizeof(float))));
  add(__builtin_bswap16(user));
  for (const float v : values) add(__builtin_bswap32(std::bit_cast<std::uint32_t>(v)));
  write_file(path, [&](std::ostream& out) { out << bytes; });
}

int HtkFiles::open(const std::string& path) {
  const auto known = std::find_if(open_.begin(), open_.end(), [&](const Open& o) { return o.path == path; });
  if (known != open_.end()) {
    open_.splice(open_.begin(), open_, known);
  } else {
    open_.emplace_front(path);
    if (open_.front().file.get() < 0) {
      const int why = errno;
      open_.pop_front();
      fail(path, std::strerror(why));
    }
    if (open_.size() > most_files_open) open_.pop_back();
  }
  return open_.front().file.get();
}

void HtkFiles::read_compressed(const std::string& path, int fd, const HtkHeader& h, std::uint64_t first,
                               std::uint64_t count, float* out) {
  scratch_.resize(std::max<std::size_t>(8ull * h.dim, count * h.frame_bytes));
  read_exactly(path, fd, scratch_.data(), 8ull * h.dim, header_bytes);
  std::vector<float> scale(h.dim), offset(h.dim);
  for (std::size_t d = 0; d < h.dim; ++d) {
    scale[d] = big_float(scratch_.data() + 4 * d);
    offset[d] = big_float(scratch_.data() + 4 * (h.dim + d));
  }
  read_exactly(path, fd, scratch_.data(), count * h.frame_bytes, h.data_at + first * h.frame_bytes);
  for (std::uint64_t i = 0; i < count * h.dim; ++i) {
    const auto value = static_cast<float>(static_cast<std::int16_t>(big16(scratch_.data() + 2 * i)));
    out[i] = (value + offset[i % h.dim]) / scale[i % h.dim];
  }
}

void HtkFiles::read(const std::string& path, const HtkHeader& h, std::uint64_t first, std::uint64_t count, float* out) {
  const int fd = open(path);
  const std::uint64_t numbers = count * h.dim;
  if (h.compressed) {
    read_compressed(path, fd, h, first, count, out);
  } else {
    auto* bytes = reinterpret_cast<char*>(out);
    read_exactly(path, fd, bytes, numbers * sizeof(float), h.data_at + first * h.frame_bytes);
    for (std::uint64_t i = 0; i < numbers; ++i) out[i] = big_float(bytes + sizeof(float) * i);
  }
  for (std::uint64_t i = 0; i < numbers; ++i)
    if (!std::isfinite(out[i]))
      fail(path, fmt::format("frame {} holds a value that is not a finite number", first + i / h.dim));
}

}  // namespace tutti::reader
