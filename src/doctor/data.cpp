// SPDX-License-Identifier: Apache-2.0
// What lists name is found as the readers find it (src/reader). Work is bounded: of a file three parts are read, and of
// many files the sizes of some are compared.
#include "doctor/data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "base/trimmed.h"
#include "base/utf8.h"
#include "config/text.h"

namespace tutti::doctor {
namespace {

namespace fs = std::filesystem;
using Kind = DataItem::Kind;

constexpr std::size_t kPartOfFile = 1 << 20;  // bytes
constexpr std::size_t kMostSizes = 4096;      // files of a folder or a list whose sizes are compared
constexpr std::int64_t kMostInFolder = 500'000;
constexpr std::uint64_t kHashStart = 14695981039346656037u;  // FNV-1a

std::uint64_t hash_on(std::uint64_t h, const void* bytes, std::size_t count) {
  const auto* const at = static_cast<const unsigned char*>(bytes);
  for (std::size_t i = 0; i < count; ++i) h = (h ^ at[i]) * 1099511628211u;
  return h;
}

// ---- What a configuration names.

// A key whose file a reader opens; it is reported if it is missing here, too.
struct NamingKey {
  const char* key;
  Kind kind = Kind::file;
  bool several = false;  // a:b:c
};
constexpr NamingKey kNamingKeys[] = {{"file"},
                                     {"files", Kind::file, true},
                                     {"fileList", Kind::list},
                                     {"scpFile", Kind::script},
                                     {"mlfFile", Kind::file, true},
                                     {"mlfFileList", Kind::list},
                                     {"wordmap"},
                                     {"meanFile"}};

const NamingKey* naming_key(const std::string& key) {
  const auto* const found =
      std::ranges::find_if(kNamingKeys, [&](const NamingKey& k) { return config::equal_keys(k.key, key); });
  return found == std::end(kNamingKeys) ? nullptr : found;
}

// The block of this key, or those of an array such as `deserializers`.
std::vector<config::Record> blocks_of(const config::Record& block, const std::string& key) {
  try {
    return block.blocks(key);
  } catch (const ConfigError&) {
    return {};
  }
}

std::vector<std::string> values_of(const config::Record& block, const std::string& key, bool several) {
  if (several) return block.strings(key);
  const auto value = block.find_own(key);
  return value ? std::vector{value->text} : std::vector<std::string>{};
}

bool is_of_images(const config::Record& block) {
  const auto reader = block.find("readerType"), type = block.find_own("type");
  return (reader && config::equal_keys(reader->text, "ImageReader")) ||
         (type && config::equal_keys(type->text, "ImageDeserializer"));
}

// ---- Many files.

// All names, and those with the smallest hashes: the same ones on every host, in whatever order files are listed.
class NamedFiles {
 public:
  void add(std::string_view name, std::string path) {
    const std::uint64_t h = hash_on(kHashStart, name.data(), name.size());
    ++count_, sum_ += h;
    if (chosen_.size() == kMostSizes && h > chosen_.rbegin()->first) return;
    chosen_.emplace(h, std::move(path));
    if (chosen_.size() > kMostSizes) chosen_.erase(std::prev(chosen_.end()));
  }
  std::int64_t count() const { return count_; }
  std::uint64_t names() const { return sum_; }

  void look_at_sizes(Fingerprint& f) const {
    f.sizes = kHashStart;
    for (const auto& [hash, path] : chosen_) {
      std::error_code failed;
      const std::uintmax_t size = fs::file_size(path, failed);
      f.sizes = hash_on(f.sizes, &size, sizeof size);
      if (failed && ++f.missing == 1)
        std::memcpy(f.first_missing.data(), path.data(), std::min(path.size(), f.first_missing.size() - 1));
    }
    f.named = count_, f.compared = static_cast<std::int64_t>(chosen_.size());
  }

 private:
  std::map<std::uint64_t, std::string> chosen_;  // by the hash of the name
  std::int64_t count_ = 0;
  std::uint64_t sum_ = 0;
};

// As the reader does: the files in the folders of classes, without hidden ones.
Fingerprint of_folder(const std::string& folder) {
  NamedFiles files;
  std::error_code failed, ignored;
  auto i = fs::recursive_directory_iterator(folder, fs::directory_options::follow_directory_symlink, failed);
  for (; !failed && i != fs::recursive_directory_iterator() && files.count() <= kMostInFolder; i.increment(failed)) {
    const std::string path = i->path().string();
    const bool hidden = i->path().filename().string().starts_with('.'), folder_in_it = i->is_directory(ignored);
    if (hidden || i.depth() > 0) i.disable_recursion_pending();
    if (i.depth() == 1 && !hidden && !folder_in_it) files.add(std::string_view(path).substr(folder.size()), path);
  }
  Fingerprint f;
  f.folder = 1;
  if (failed) return f;
  f.named = files.count(), f.content = 1;
  if (f.named > kMostInFolder) return f;
  const std::uint64_t names = files.names();
  f.content = std::max<std::uint64_t>(1, hash_on(kHashStart, &names, sizeof names));
  files.look_at_sizes(f);
  return f;
}

// ---- Lists.

std::string_view without_comment(std::string_view line) {
  for (std::size_t i = 0; i < line.size(); ++i)
    if (line[i] == '#' && (i == 0 || is_blank(line[i - 1]))) return line.substr(0, i);
  return line;
}

// Of path<TAB>label or key<TAB>path<TAB>label. A path may go on in a zip archive: a.zip@/b.jpg.
std::string_view image_in(std::string_view line) {
  const std::size_t tab = line.find('\t');
  if (tab == line.npos) return {};
  const std::size_t second = line.find('\t', tab + 1);
  const std::string_view path = second == line.npos ? line.substr(0, tab) : line.substr(tab + 1, second - tab - 1);
  for (std::size_t at = path.find('@'); at != path.npos; at = path.find('@', at + 1))
    if (at >= 4 && config::equal_keys(path.substr(at - 4, 4), ".zip")) return path.substr(0, at);
  return path;
}

// Of [name=]file[firstFrame,lastFrame].
std::string_view features_in(std::string_view line) {
  line = trimmed(line);
  if (line.ends_with(']')) line = line.substr(0, line.rfind('['));
  const std::size_t equals = line.find('=');
  return equals == line.npos ? line : line.substr(equals + 1);
}

// Empty: the line names no file.
std::string file_in(const DataItem& list, std::string_view line) {
  const std::string_view path = list.kind == Kind::map      ? image_in(line)
                                : list.kind == Kind::script ? features_in(line)
                                                            : trimmed(without_comment(line));
  if (!list.prefix.empty() && !path.empty() && path.front() != '/') return fmt::format("{}/{}", list.prefix, path);
  if (path.starts_with(".../")) return fmt::format("{}{}", fs::path(list.path).parent_path().string(), path.substr(3));
  return std::string(path);
}

void look_into_list(const DataItem& list, Fingerprint& f) {
  std::ifstream in(list.path, std::ios::binary);
  NamedFiles files;
  bool first = true;
  for (std::string line; std::getline(in, line); first = false) {
    if (first) line.erase(0, byte_order_mark_size(line));
    if (std::string path = file_in(list, line); !path.empty()) files.add(path, path);
  }
  files.look_at_sizes(f);
}

// ---- Findings.

std::string file_count(std::int64_t count) { return fmt::format("{} file{}", count, count == 1 ? "" : "s"); }

// Of one item.
class ItemComparison {
 public:
  ItemComparison(const DataItem& item, std::size_t index, const std::vector<HostData>& hosts)
      : path_(item.path), index_(index), hosts_(hosts) {}

  // Nothing: a file that is the same everywhere.
  Findings run() const {
    const Fingerprint& first = of(hosts_[0]);
    const auto unreadable = [&](const HostData& h) { return of(h).content == 0; };
    const auto other_content = [&](const HostData& h) { return of(h).content != first.content; };
    const auto other_sizes = [&](const HostData& h) { return of(h).sizes != first.sizes; };
    if (const std::string on = names(unreadable); !on.empty())
      return failure(fmt::format("'{}' cannot be read on {}", path_, on), kCopy);
    if (const std::string on = names(other_content); !on.empty())
      return failure(fmt::format("'{}' on {} is not that of {}", path_, on, hosts_[0].host), kCopyAgain);
    Findings missing;
    for (const HostData& h : hosts_)
      if (const Fingerprint& f = of(h); f.missing > 0)
        missing.push_back({Level::failure, "data",
                           fmt::format("{} of {} {} cannot be read on {}: '{}'{}", f.missing, file_count(f.compared),
                                       whose(f), h.host, f.first_missing.data(), f.missing > 1 ? ", ..." : ""),
                           kCopy});
    if (!missing.empty()) return missing;
    if (const std::string on = names(other_sizes); !on.empty())
      return failure(fmt::format("files {} have other sizes on {} than on {}", whose(first), on, hosts_[0].host),
                     kCopyAgain);
    if (first.folder && first.named == 0)
      return failure(fmt::format("'{}' has no files", path_), "a folder of images has a sub-folder for each class");
    if (first.named == 0) return {};
    return {{Level::ok, "data", text_of_many(first)}};
  }

 private:
  static constexpr const char* kCopy = "copy it there, or keep it on a shared file system";
  static constexpr const char* kCopyAgain = "copy it again: every rank must read the same data";

  const Fingerprint& of(const HostData& h) const { return h.items[index_]; }
  static Findings failure(std::string text, const char* fix) {
    return {{Level::failure, "data", std::move(text), fix}};
  }
  std::string whose(const Fingerprint& f) const {
    return f.folder ? fmt::format("in '{}'", path_) : fmt::format("that '{}' names", path_);
  }
  template <class Predicate>
  std::string names(const Predicate& holds) const {
    std::string text;
    for (const HostData& h : hosts_)
      if (holds(h)) text += (text.empty() ? "" : ", ") + h.host;
    return text;
  }
  std::string text_of_many(const Fingerprint& f) const {
    if (f.compared == 0)
      return fmt::format("'{}' has more than {} files: their names and sizes are not compared", path_, kMostInFolder);
    const bool all = f.compared < static_cast<std::int64_t>(kMostSizes);
    if (f.folder)
      return fmt::format("{} {}, the same names and sizes on all hosts{}", file_count(f.named), whose(f),
                         all ? "" : fmt::format(" (sizes: {} of them compared)", f.compared));
    return fmt::format("{} {}{}, the same sizes on all hosts", file_count(f.compared), whose(f),
                       all ? "" : fmt::format(" (chosen from {} lines)", f.named));
  }

  const std::string& path_;
  const std::size_t index_;
  const std::vector<HostData>& hosts_;
};

}  // namespace

void add_data(const config::Record& reader, std::vector<DataItem>& items) {
  for (const std::string& key : reader.keys()) try {
      const std::vector<config::Record> blocks = blocks_of(reader, key);
      for (const config::Record& inner : blocks) add_data(inner, items);
      if (!blocks.empty()) continue;
      const NamingKey* const known = naming_key(key);
      for (const std::string& value : values_of(reader, key, known && known->several)) {
        std::error_code ignored;
        DataItem item{known ? known->kind : Kind::file, fs::absolute(value, ignored).string()};
        if (value.empty() || (!known && !fs::is_regular_file(item.path, ignored))) continue;
        if (config::equal_keys(key, "file") && is_of_images(reader)) item.kind = Kind::map;
        if (item.kind == Kind::script) item.prefix = reader.string("prefixPathInSCP", "");
        if (std::ranges::find(items, item.path, &DataItem::path) == items.end()) items.push_back(std::move(item));
      }
    } catch (const ConfigError&) {  // a value that the reader refuses
    }
}

std::uint64_t content_hash(const std::string& path, std::size_t bytes_per_part) {
  std::ifstream in(path, std::ios::binary);
  std::error_code failed;
  const auto size = fs::file_size(path, failed);
  if (!in || failed) return 0;
  std::uint64_t h = kHashStart ^ size;
  std::vector<char> part(std::min<std::uintmax_t>(size, bytes_per_part));
  for (const auto from : {std::uintmax_t{0}, (size - part.size()) / 2, size - part.size()}) {
    in.seekg(static_cast<std::streamoff>(from));
    in.read(part.data(), static_cast<std::streamsize>(part.size()));
    h = hash_on(h, part.data(), static_cast<std::size_t>(in.gcount()));
  }
  return h == 0 ? 1 : h;
}

Fingerprint fingerprint(const DataItem& item) {
  std::error_code ignored;
  if (item.kind == Kind::map && fs::is_directory(item.path, ignored)) return of_folder(item.path);
  Fingerprint f;
  f.content = content_hash(item.path, kPartOfFile);
  if (f.content != 0 && item.kind != Kind::file) look_into_list(item, f);
  return f;
}

Findings compare_data(const std::vector<DataItem>& items, const std::vector<HostData>& hosts) {
  Findings findings;
  std::int64_t good = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Findings of_item = ItemComparison(items[i], i, hosts).run();
    findings.insert(findings.end(), of_item.begin(), of_item.end());
    const bool failed = !of_item.empty() && of_item[0].level == Level::failure;
    if (!failed && !hosts[0].items[i].folder) ++good;
  }
  if (good > 0) findings.push_back({Level::ok, "data", file_count(good) + " of the readers, the same on all hosts"});
  return findings;
}

}  // namespace tutti::doctor
