// SPDX-License-Identifier: Apache-2.0
// npz: a zip archive with one npy file per array. Written without compression and without dates, as numpy.savez does.
#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <map>

#include "interchange/npy.h"
#include "interchange/tensor_file.h"
#include "train/file.h"
#include "tutti/error.h"

namespace tutti::interchange {
namespace {

constexpr std::string_view npy_suffix = ".npy";
// Deflate makes at most 1032 bytes of one.
constexpr std::uint64_t most_inflation = 1040;
constexpr std::uint16_t first_date = 1 << 5 | 1;  // 1980-01-01

struct CloseZip {
  void operator()(zip_t* z) const { zip_discard(z); }
  void operator()(zip_file_t* f) const { zip_fclose(f); }
};
using ZipHandle = std::unique_ptr<zip_t, CloseZip>;

ZipHandle open_zip(const std::string& path, int flags) {
  int code = 0;
  ZipHandle zip(zip_open(path.c_str(), flags, &code));
  if (zip) return zip;
  zip_error_t why;
  zip_error_init_with_code(&why, code);
  const std::string text = zip_error_strerror(&why);
  zip_error_fini(&why);
  throw Error(fmt::format("'{}' cannot be opened as an npz archive: {}\nfix: {}", path, text,
                          flags & ZIP_CREATE ? "name another file" : "it was cut or changed; make it again"));
}

class NpzFile final : public TensorFile {
 public:
  explicit NpzFile(const std::string& path)
      : path_(path), size_(File::open(path).size()), zip_(open_zip(path, ZIP_RDONLY | ZIP_CHECKCONS)) {
    const zip_int64_t n = zip_get_num_entries(zip_.get(), 0);
    for (zip_int64_t i = 0; i < n; ++i) read_member(static_cast<zip_uint64_t>(i));
    std::ranges::sort(entries_, {}, &TensorEntry::name);
  }

  std::vector<float> read(const TensorEntry& e) override {
    const Member& m = members_.at(e.name);
    std::vector<std::byte> bytes(m.size);
    read_bytes(m, e.name, bytes);
    // Behind the last byte the library compares the checksum.
    return npy_values(m.header, std::span(bytes).subspan(m.header.values_at));
  }

 private:
  struct Member {
    zip_uint64_t index = 0;
    std::uint64_t size = 0;
    NpyHeader header = {};
  };

  [[noreturn]] void fail(const std::string& name, std::size_t at, const std::string& what) const {
    throw Error(fmt::format("'{}', array '{}', byte {}: {}", path_, name, at,
                            with_fix(what, "it was cut or changed, or numpy.savez did not write it; make it again")));
  }

  void read_member(zip_uint64_t index) {
    zip_stat_t s;
    zip_stat_init(&s);
    constexpr auto needed = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
    if (zip_stat_index(zip_.get(), index, 0, &s) != 0 || (s.valid & needed) != needed)
      throw Error(fmt::format("'{}': entry {} of the archive is damaged: {}\nfix: make it again", path_, index,
                              zip_strerror(zip_.get())));
    std::string name = s.name;
    if (!name.ends_with(npy_suffix))
      throw Error(
          fmt::format("'{}' holds '{}', which is no array\nfix: npz archives hold .npy files only", path_, name));
    name.resize(name.size() - npy_suffix.size());
    const bool stored = s.comp_method == ZIP_CM_STORE;
    if (s.comp_size > size_ || (stored ? s.size != s.comp_size : s.size / most_inflation > s.comp_size))
      fail(name, 0, fmt::format("{} bytes are said to be packed in {} of {}", s.size, s.comp_size, size_));
    Member m{index, s.size};
    std::vector<std::byte> first(std::min<std::uint64_t>(s.size, most_npy_header));
    read_bytes(m, name, first);
    m.header = parse_npy_header({reinterpret_cast<const char*>(first.data()), first.size()}, s.size,
                                [&](std::size_t at, const std::string& what) { fail(name, at, what); });
    if (!members_.emplace(name, m).second) fail(name, 0, "two arrays have this name");
    entries_.push_back({name, m.header.shape, m.header.kind});
  }

  void read_bytes(const Member& m, const std::string& name, std::span<std::byte> to) {
    const std::unique_ptr<zip_file_t, CloseZip> file(zip_fopen_index(zip_.get(), m.index, 0));
    if (!file) fail(name, 0, zip_strerror(zip_.get()));
    std::size_t at = 0;
    while (at < to.size()) {
      const zip_int64_t n = zip_fread(file.get(), to.data() + at, to.size() - at);
      if (n <= 0) fail(name, at, n < 0 ? zip_file_strerror(file.get()) : "the array ends too early");
      at += static_cast<std::size_t>(n);
    }
    std::byte beyond{};
    if (to.size() == m.size && zip_fread(file.get(), &beyond, 1) != 0)
      fail(name, at, "the checksum of the archive says that the array has changed");
  }

  std::string path_;
  std::uint64_t size_;
  ZipHandle zip_;
  std::map<std::string, Member, std::less<>> members_;
};

}  // namespace

std::unique_ptr<TensorFile> open_npz(const std::string& path) { return std::make_unique<NpzFile>(path); }

void write_npz(const std::string& path, std::span<const Tensor> tensors) {
  create_directories(directory_of(path));
  const std::string unfinished = path + ".tmp";
  ZipHandle zip = open_zip(unfinished, ZIP_CREATE | ZIP_TRUNCATE);
  const auto fail = [&] {
    throw Error(fmt::format("writing '{}': {}\nfix: free space, or name another file", path, zip_strerror(zip.get())));
  };
  std::vector<std::string> headers;  // until the archive is closed
  headers.reserve(tensors.size());
  for (const Tensor& t : tensors) {
    headers.push_back(npy_header(reversed_axes(t.shape)));
    zip_buffer_fragment_t parts[2] = {
        {reinterpret_cast<zip_uint8_t*>(headers.back().data()), headers.back().size()},
        {reinterpret_cast<zip_uint8_t*>(const_cast<float*>(t.values.data())), t.values.size_bytes()}};
    zip_error_t why;
    zip_error_init(&why);
    zip_source_t* source = zip_source_buffer_fragment_create(parts, 2, 0, &why);
    if (!source) throw Error(fmt::format("writing '{}': {}", path, zip_error_strerror(&why)));
    const zip_int64_t index =
        zip_file_add(zip.get(), (t.name + std::string(npy_suffix)).c_str(), source, ZIP_FL_ENC_UTF_8);
    if (index < 0) zip_source_free(source), fail();
    const auto at = static_cast<zip_uint64_t>(index);
    if (zip_set_file_compression(zip.get(), at, ZIP_CM_STORE, 0) != 0 ||
        zip_file_set_dostime(zip.get(), at, 0, first_date, 0) != 0)
      fail();
  }
  if (zip_close(zip.get()) != 0) fail();
  (void)zip.release();
  rename_durably(unfinished, path);
}

}  // namespace tutti::interchange
