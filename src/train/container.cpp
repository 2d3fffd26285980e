// SPDX-License-Identifier: Apache-2.0
#include "train/container.h"

#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>
#include <exception>
#include <optional>

#include "base/activity.h"
#include "train/file.h"
#include "train/memory_blocks.h"
#include "tutti/error.h"

namespace tutti {

static_assert(std::endian::native == std::endian::little, "the file format is little-endian");

namespace {

// A byte above 127, both line ends and a control character, so that damage by text-mode transfers shows at once.
constexpr std::array<char, 8> magic = {'\x89', 'T', 'U', 'T', 'T', 'I', '\n', '\x1a'};
constexpr std::array<char, 8> end_magic = {'T', 'U', 'T', 'T', 'I', 'E', 'N', 'D'};
constexpr std::uint32_t version = container_version, byte_order = 0x01020304;
constexpr std::uint64_t alignment = 64;

struct Header {
  std::array<char, 8> magic;
  std::uint32_t version, byte_order;
  std::array<char, 16> kind;
  std::array<char, 32> reserved;
};
static_assert(sizeof(Header) == alignment);

struct Footer {
  std::uint64_t table, entries, size, checksum;
  std::array<char, 8> magic;
};
static_assert(sizeof(Footer) == 40);

struct TableRow {
  std::uint32_t type, name, dims, reserved;
  std::uint64_t offset, bytes;
};
static_assert(sizeof(TableRow) == 32);

constexpr std::size_t after_checksum = sizeof(std::uint64_t) + sizeof(end_magic);

template <class T>
std::span<const std::byte> bytes_of(const T& v) {
  return std::as_bytes(std::span<const T, 1>(&v, 1));
}

struct HashFree {
  void operator()(XXH64_state_t* s) const { XXH64_freeState(s); }
};
class Hash {
 public:
  Hash() : state_(XXH64_createState()) { XXH64_reset(state_.get(), 0); }
  void add(std::span<const std::byte> b) { XXH64_update(state_.get(), b.data(), b.size()); }
  std::uint64_t value() const { return XXH64_digest(state_.get()); }

 private:
  std::unique_ptr<XXH64_state_t, HashFree> state_;
};

// A reader that allocates memory by shape gets no more than the size of the file.
bool fits_shape(const Entry& e) {
  double elements = 1;
  for (const auto d : e.dims) elements *= static_cast<double>(d);
  return elements * sizeof(float) == static_cast<double>(e.bytes);
}

std::array<char, 16> kind_field(std::string_view kind) {
  std::array<char, 16> field{};
  assert(kind.size() <= field.size());
  kind.copy(field.data(), field.size());
  return field;
}

}  // namespace

struct ContainerWriter::Impl {
  Impl(std::string p, Storage storage) : path(std::move(p)), temporary(path + ".tmp") {
    if (storage == Storage::memory)
      memory.emplace();
    else
      open();
  }
  void open() {
    file.emplace(File::create(temporary));
    buffer.reserve(capacity);
  }

  static constexpr std::size_t capacity = 1 << 20, portion = 4 << 20;
  const std::string path, temporary;
  std::optional<File> file;
  std::optional<MemoryBlocks> memory;
  Hash hash;
  std::vector<std::byte> buffer;
  std::uint64_t position = 0, open_bytes = 0;
  std::vector<std::pair<std::string, Entry>> table;
  bool committed = false;
  std::exception_ptr failed;  // of a file that is streamed

  void put(std::span<const std::byte> bytes) {
    if (memory && !file) {
      position += bytes.size();
      return memory->append(bytes);
    }
    hash.add(bytes);
    put_unhashed(bytes);
  }
  void put_unhashed(std::span<const std::byte> bytes) {
    position += bytes.size();
    if (buffer.size() + bytes.size() > capacity) flush();
    if (bytes.size() > capacity) return to_file(bytes);
    buffer.insert(buffer.end(), bytes.begin(), bytes.end());
  }
  // A portion is still in the cache when it is copied, and goes to disk while the next one is.
  void put_in_portions(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const auto part = bytes.first(std::min(portion, bytes.size()));
      put(part);
      if (part.size() == portion) guarded([this] { file->start_sync(); });
      made_progress();
      bytes = bytes.subspan(part.size());
    }
  }
  void flush() {
    to_file(buffer);
    buffer.clear();
  }
  void to_file(std::span<const std::byte> bytes) {
    guarded([this, bytes] { file->write(bytes); });
  }
  template <class Write>
  void guarded(const Write& write) {
    if (memory) return write();
    try {
      if (!failed) write();
    } catch (const Error&) {
      failed = std::current_exception();
    }
  }
  void align() {
    static constexpr std::array<std::byte, alignment> zeros{};
    put(std::span(zeros).first((alignment - position % alignment) % alignment));
  }
};

ContainerWriter::ContainerWriter(std::string path, std::string_view kind, Storage storage)
    : impl_(std::make_unique<Impl>(std::move(path), storage)) {
  impl_->put(bytes_of(Header{magic, version, byte_order, kind_field(kind), {}}));
}

ContainerWriter::~ContainerWriter() {
  if (!impl_->committed && impl_->file) ::unlink(impl_->temporary.c_str());
}

void ContainerWriter::begin(std::string_view name, EntryType type, std::vector<std::uint64_t> dims,
                            std::uint64_t bytes) {
  assert(impl_->open_bytes == 0);
  impl_->align();
  impl_->table.emplace_back(std::string(name), Entry{type, std::move(dims), impl_->position, bytes});
  impl_->open_bytes = bytes;
  if (impl_->memory) impl_->memory->reserve(bytes);
}

void ContainerWriter::write(std::span<const std::byte> bytes) {
  assert(bytes.size() <= impl_->open_bytes);
  impl_->open_bytes -= bytes.size();
  impl_->memory ? impl_->put(bytes) : impl_->put_in_portions(bytes);
}

void ContainerWriter::add(std::string_view name, EntryType type, std::vector<std::uint64_t> dims,
                          std::span<const std::byte> bytes) {
  begin(name, type, std::move(dims), bytes.size());
  write(bytes);
}
void ContainerWriter::add(std::string_view name, bool v) {
  add(name, EntryType::boolean, {}, bytes_of(static_cast<std::uint8_t>(v)));
}
void ContainerWriter::add(std::string_view name, std::int64_t v) { add(name, EntryType::integer, {}, bytes_of(v)); }
void ContainerWriter::add(std::string_view name, std::string_view text) {
  add(name, EntryType::text, {}, std::as_bytes(std::span(text)));
}
void ContainerWriter::add(std::string_view name, const Shape& shape, std::span<const float> v) {
  assert(shape.elements() == v.size());
  add(name, EntryType::floats, {shape.dims.begin(), shape.dims.end()}, std::as_bytes(v));
}

void ContainerWriter::set(std::string_view name, std::int64_t v) {
  for (const auto& [known, entry] : impl_->table)
    if (known == name) impl_->memory->replace(entry.offset, bytes_of(v));
}

std::uint64_t ContainerWriter::size() const { return impl_->position; }

std::uint64_t ContainerWriter::finish() {
  Impl& i = *impl_;
  assert(i.open_bytes == 0);
  if (i.memory) {  // what follows is not kept, so that the call can be repeated
    require_space(i.path, i.memory->size() + 1024 * (i.table.size() + 1));
    i.file.reset();
    i.committed = false;
    i.hash = Hash();
    i.buffer.clear();
    i.open();
    i.position = 0;
    i.memory->each([&](std::span<const std::byte> bytes) { i.put_in_portions(bytes); });
  }
  i.align();
  Footer footer{i.position, i.table.size(), 0, 0, end_magic};
  for (const auto& [name, e] : i.table) {
    i.put(bytes_of(TableRow{static_cast<std::uint32_t>(e.type), static_cast<std::uint32_t>(name.size()),
                            static_cast<std::uint32_t>(e.dims.size()), 0, e.offset, e.bytes}));
    i.put(std::as_bytes(std::span(e.dims)));
    i.put(std::as_bytes(std::span(name)));
  }
  footer.size = i.position + sizeof footer;
  i.put(bytes_of(footer).first(sizeof footer - after_checksum));
  footer.checksum = i.hash.value();
  i.put_unhashed(bytes_of(footer).last(after_checksum));
  i.flush();
  if (i.failed) std::rethrow_exception(i.failed);
  i.file->sync();
  i.file->close();
  return footer.checksum;
}

void ContainerWriter::commit() {
  if (impl_->committed) return;
  rename_durably(impl_->temporary, impl_->path);
  impl_->committed = true;
}

template <class T>
T ContainerReader::get(std::uint64_t from) const {
  T v;
  file_.read(from, writable_bytes(v));
  return v;
}

std::string container_kind(const std::string& path) {
  const File file = File::open(path);
  Header header{};
  if (file.size() < sizeof(Header)) return {};
  file.read(0, writable_bytes(header));
  return header.magic == magic ? std::string(header.kind.data(), ::strnlen(header.kind.data(), header.kind.size()))
                               : std::string();
}

ContainerReader::ContainerReader(std::string path, std::string_view kind)
    : path_(std::move(path)), file_(File::open(path_)), size_(file_.size()) {
  if (size_ < sizeof(Header)) damaged(fmt::format("is truncated: {} bytes", size_));
  const auto header = get<Header>(0);
  if (header.magic != magic) damaged("is not a file of this program (its first bytes are others)");
  if (header.byte_order != byte_order) damaged("is damaged: its byte order mark is wrong");
  if (header.version != version)
    damaged(fmt::format("has format version {}; this program reads version {}", header.version, version));
  if (size_ < sizeof(Header) + sizeof(Footer)) damaged(fmt::format("is truncated: {} bytes", size_));
  const auto footer = get<Footer>(size_ - sizeof(Footer));
  if (footer.magic != end_magic) damaged("is truncated or damaged: its end mark is missing");
  if (footer.size != size_) damaged(fmt::format("is damaged: it has {} bytes and should have {}", size_, footer.size));
  checksum_ = footer.checksum;
  check_sum();
  if (header.kind != kind_field(kind)) {
    const std::string found(header.kind.data(), ::strnlen(header.kind.data(), header.kind.size()));
    damaged(fmt::format("is a {} file, not a {} file", found, kind));
  }
  read_table(footer.table, footer.entries);
}

void ContainerReader::damaged(const std::string& how) const { throw Error(fmt::format("'{}' {}", path_, how)); }

void ContainerReader::check_sum() const {
  Hash hash;
  std::vector<std::byte> buffer(std::min<std::uint64_t>(1 << 20, size_));
  const std::uint64_t end = size_ - after_checksum;
  for (std::uint64_t at = 0; at < end;) {
    const auto part = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), end - at));
    file_.read(at, part);
    hash.add(part);
    at += part.size();
  }
  if (hash.value() != checksum_) damaged("is damaged: its checksum does not match its content");
}

void ContainerReader::read_table(std::uint64_t table, std::uint64_t rows) {
  const std::uint64_t end = size_ - sizeof(Footer);
  std::uint64_t at = table;
  const auto take = [&](std::uint64_t bytes) {
    if (at > end || bytes > end - at) damaged("is damaged: its table extends beyond the end");
    at += bytes;
    return at - bytes;
  };
  for (std::uint64_t i = 0; i < rows; ++i) {
    const auto row = get<TableRow>(take(sizeof(TableRow)));
    const std::uint64_t dims = take(row.dims * sizeof(std::uint64_t)), text = take(row.name);
    Entry e{static_cast<EntryType>(row.type), std::vector<std::uint64_t>(row.dims), row.offset, row.bytes};
    file_.read(dims, std::as_writable_bytes(std::span(e.dims)));
    std::string name(row.name, '\0');
    file_.read(text, std::as_writable_bytes(std::span(name)));
    if (e.offset > table || e.bytes > table - e.offset)
      damaged(fmt::format("is damaged: entry '{}' extends beyond the end", name));
    if (e.type == EntryType::floats && !fits_shape(e))
      damaged(fmt::format("is damaged: entry '{}' has {} bytes, its shape is another", name, e.bytes));
    if (!entries_.emplace(std::move(name), std::move(e)).second) damaged("is damaged: an entry appears twice");
  }
}

const Entry& ContainerReader::find(std::string_view name, EntryType type) const {
  const auto at = entries_.find(name);
  if (at == entries_.end()) damaged(fmt::format("has no entry '{}'", name));
  if (at->second.type != type) damaged(fmt::format("has an entry '{}' of another type", name));
  return at->second;
}

void ContainerReader::read(const Entry& e, std::uint64_t from, std::span<std::byte> bytes) const {
  assert(from + bytes.size() <= e.bytes);
  file_.read(e.offset + from, bytes);
}

void ContainerReader::read(std::string_view name, EntryType type, std::span<std::byte> to) const {
  const Entry& e = find(name, type);
  if (e.bytes == to.size()) return read(e, 0, to);
  if (type == EntryType::floats)
    throw Error(fmt::format("'{}' has an entry '{}' of {} values where {} are expected", path_, name,
                            e.bytes / sizeof(float), to.size() / sizeof(float)));
  throw Error(fmt::format("'{}' has an entry '{}' of a wrong size", path_, name));
}

std::int64_t ContainerReader::integer(std::string_view name) const {
  std::int64_t v = 0;
  read(name, EntryType::integer, writable_bytes(v));
  return v;
}
std::string ContainerReader::text(std::string_view name) const {
  std::string text(find(name, EntryType::text).bytes, '\0');
  read(name, EntryType::text, std::as_writable_bytes(std::span(text)));
  return text;
}
void ContainerReader::floats(std::string_view name, std::span<float> v) const {
  read(name, EntryType::floats, std::as_writable_bytes(v));
}

void ByteArchive::operator()(std::string_view name, bool& v) {
  std::uint8_t byte = v;
  entry(name, EntryType::boolean, writable_bytes(byte));
  v = byte != 0;
}
void ByteArchive::operator()(std::string_view name, std::int64_t& v) {
  entry(name, EntryType::integer, writable_bytes(v));
}
void ByteArchive::operator()(std::string_view name, double& v) { entry(name, EntryType::number, writable_bytes(v)); }
void ByteArchive::operator()(std::string_view name, std::string& v) {
  v.resize(text_size(name, v));
  entry(name, EntryType::text, std::as_writable_bytes(std::span(v)));
}
void ByteArchive::operator()(std::string_view name, std::span<float> v) {
  entry(name, EntryType::floats, std::as_writable_bytes(v));
}

void SavingArchive::entry(std::string_view name, EntryType type, std::span<std::byte> bytes) {
  std::vector<std::uint64_t> dims;
  if (type == EntryType::floats) dims = {bytes.size() / sizeof(float)};
  writer_.add(prefix_ + std::string(name), type, std::move(dims), bytes);
}

void LoadingArchive::finish() const {
  for (const auto& [name, entry] : reader_.entries())
    if (name.starts_with(prefix_) && !used_.contains(name))
      throw Error(fmt::format("'{}' has an entry '{}' that this run does not use", reader_.path(), name));
}

}  // namespace tutti
