// SPDX-License-Identifier: Apache-2.0
// An archive is opened once and read by one thread at a time: unpacking is quick beside decoding, which is done
// outside.
#include "reader/image/image_bytes.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zip.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "reader/image/decoder.h"
#include "reader/mapped_file.h"

namespace tutti::reader {
namespace {

constexpr std::uint64_t most_bytes = std::uint64_t{1} << 30;

[[noreturn]] void cannot_read(const std::string& path, const std::string& why) {
  throw BadImage(fmt::format("the file '{}' cannot be read: {}", path, why));
}

void read_file(const std::string& path, Buffer<unsigned char>& to) {
  const Descriptor file(path);
  struct stat info {};
  if (file.get() < 0 || ::fstat(file.get(), &info) != 0) cannot_read(path, std::strerror(errno));
  if (!S_ISREG(info.st_mode)) cannot_read(path, "it is not a regular file");
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (size > most_bytes) cannot_read(path, "it is too large for an image");
  to.clear();
  unsigned char* at = to.extend(size);
  for (std::size_t left = size; left > 0;) {
    const ssize_t n = ::read(file.get(), at, left);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) cannot_read(path, std::strerror(errno));
    if (n == 0) cannot_read(path, "it became shorter while it was read");
    at += n;
    left -= static_cast<std::size_t>(n);
  }
}

// The '@' between the archive and the path in it; npos for plain files.
std::size_t archive_end(std::string_view path) {
  for (std::size_t at = path.find('@'); at != std::string_view::npos; at = path.find('@', at + 1)) {
    if (at < 4) continue;
    const std::string_view ending = path.substr(at - 4, 4);
    if (std::equal(ending.begin(), ending.end(), ".zip", [](char a, char b) { return std::tolower(a) == b; }))
      return at;
  }
  return std::string_view::npos;
}

}  // namespace

class ImageFiles::Archive {
 public:
  explicit Archive(std::string path) : path_(std::move(path)) {
    int error = 0;
    zip_.reset(zip_open(path_.c_str(), ZIP_RDONLY, &error));
    if (zip_) return;
    zip_error_t why;
    zip_error_init_with_code(&why, error);
    problem_ = zip_error_strerror(&why);
    zip_error_fini(&why);
  }

  std::string missing(const std::string& inner) {
    const std::lock_guard lock(mutex_);
    if (!zip_) return problem_;
    return zip_name_locate(zip_.get(), inner.c_str(), 0) < 0 ? fmt::format("the archive has no '{}'", inner) : "";
  }

  void read(const std::string& inner, Buffer<unsigned char>& to) {
    const std::lock_guard lock(mutex_);
    const auto fail = [&](const std::string& why) { cannot_read(fmt::format("{}@/{}", path_, inner), why); };
    if (!zip_) fail(problem_);
    zip_stat_t info;
    zip_stat_init(&info);
    if (zip_stat(zip_.get(), inner.c_str(), 0, &info) != 0 || !(info.valid & ZIP_STAT_SIZE))
      fail(zip_strerror(zip_.get()));
    if (info.size > most_bytes) fail("it is too large for an image");
    const std::unique_ptr<zip_file_t, Close> file(zip_fopen_index(zip_.get(), info.index, 0));
    if (!file) fail(zip_strerror(zip_.get()));
    to.clear();
    unsigned char* at = to.extend(info.size);
    for (std::uint64_t left = info.size; left > 0;) {
      const zip_int64_t n = zip_fread(file.get(), at, left);
      if (n <= 0) fail(n < 0 ? zip_file_strerror(file.get()) : "it is cut off");
      at += n;
      left -= static_cast<std::uint64_t>(n);
    }
    // libzip compares the checksum only when it is asked for more than there is.
    unsigned char more = 0;
    if (const zip_int64_t n = zip_fread(file.get(), &more, 1); n != 0)
      fail(n < 0 ? zip_file_strerror(file.get()) : "it is longer than the archive says");
  }

 private:
  struct Close {
    void operator()(zip_t* z) const { zip_discard(z); }
    void operator()(zip_file_t* f) const { zip_fclose(f); }
  };
  std::string path_, problem_;
  std::mutex mutex_;
  std::unique_ptr<zip_t, Close> zip_;
};

ImageFiles::ImageFiles() = default;
ImageFiles::~ImageFiles() = default;

ImageFiles::Archive& ImageFiles::archive(const std::string& path) {
  const std::lock_guard lock(mutex_);
  auto& place = archives_[path];
  if (!place) place = std::make_unique<Archive>(path);
  return *place;
}

namespace {

// Behind the '@' stands a separator, in either style.
std::string inner_path(const std::string& path, std::size_t at) {
  std::string inner = path.substr(at + 1);
  std::replace(inner.begin(), inner.end(), '\\', '/');
  if (inner.starts_with('/')) inner.erase(0, 1);
  return inner;
}

}  // namespace

void ImageFiles::read(const std::string& path, Buffer<unsigned char>& to) {
  if (const std::size_t at = archive_end(path); at != std::string::npos)
    return archive(path.substr(0, at)).read(inner_path(path, at), to);
  read_file(path, to);
}

std::string ImageFiles::missing(const std::string& path) {
  if (const std::size_t at = archive_end(path); at != std::string::npos)
    return archive(path.substr(0, at)).missing(inner_path(path, at));
  return ::access(path.c_str(), R_OK) == 0 ? std::string{} : std::strerror(errno);
}

void decode_base64(std::string_view text, Buffer<unsigned char>& to) {
  static const auto values = [] {
    std::array<std::int8_t, 256> v{};
    v.fill(-1);
    constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (std::size_t i = 0; i < letters.size(); ++i)
      v[static_cast<unsigned char>(letters[i])] = static_cast<std::int8_t>(i);
    return v;
  }();
  to.clear();
  for (int i = 0; i < 2 && text.ends_with('='); ++i) text.remove_suffix(1);
  if (text.size() % 4 == 1) throw BadImage("the base64 text is cut off");
  unsigned char* at = to.extend(text.size() / 4 * 3 + text.size() % 4 * 3 / 4);
  std::uint32_t bits = 0;
  int have = 0;
  for (const char c : text) {
    const int v = values[static_cast<unsigned char>(c)];
    if (v < 0) throw BadImage(fmt::format("'{}' is not a base64 character", c));
    bits = bits << 6 | static_cast<std::uint32_t>(v);
    have += 6;
    if (have < 8) continue;
    have -= 8;
    *at++ = static_cast<unsigned char>(bits >> have);
  }
}

}  // namespace tutti::reader
