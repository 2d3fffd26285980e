// SPDX-License-Identifier: Apache-2.0
// Lines are key<TAB>path<TAB>label or path<TAB>label for maps, key<TAB>label<TAB>base64 or label<TAB>base64 for images
// written as text. Without keys of their own images are called by the number of their line, from 0.
#include "reader/image/image_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/utf8.h"
#include "reader/fault_budget.h"
#include "reader/lines.h"
#include "reader/sequence_index.h"

namespace tutti::reader {
namespace {

namespace fs = std::filesystem;

std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> columns;
  split_at(line, '\t', columns);
  return columns;
}

bool beside_text(char c) { return c == ' ' || c == '\r'; }

}  // namespace

ImageList::ImageList(Kind kind, std::string path) : kind_(kind), path_(std::move(path)) {
  std::error_code ignored;
  if (kind_ == Kind::map && fs::is_directory(path_, ignored)) {
    list_folder();
    text_ = folder_;
    return;
  }
  const fs::path parent = fs::path(path_).parent_path();
  directory_ = parent.empty() ? fs::path(".").string() : parent.string();
  file_.emplace(path_);
  text_ = file_->bytes();
  text_.remove_prefix(byte_order_mark_size(text_));
}

// Sub-folders in the order of their names are the classes from 0 on; so are the files in them.
void ImageList::list_folder() {
  directory_ = path_;
  const auto names_in = [](const fs::path& at, bool folders) {
    std::vector<std::string> names;
    for (const auto& e : fs::directory_iterator(at)) {
      const std::string name = e.path().filename().string();
      if (!name.starts_with('.') && e.is_directory() == folders) names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
  };
  try {
    for (const auto& name : names_in(path_, true)) {
      for (const auto& image : names_in(fs::path(path_) / name, false)) {
        if (name.find_first_of("\t\n") != std::string::npos || image.find_first_of("\t\n") != std::string::npos)
          throw Error(
              fmt::format("reading the image folder '{}': a name in '{}' has a tab or a line end in it", path_, name));
        folder_ += fmt::format(".../{}/{}\t{}\n", name, image, sub_folders_);
      }
      ++sub_folders_;
    }
  } catch (const fs::filesystem_error& e) {
    throw Error(fmt::format("reading the image folder '{}': {}", path_, e.code().message()));
  }
}

void ImageList::begin_epoch() const {
  if (file_) file_->check_unchanged();
}

std::optional<LineFault> ImageList::read_line(std::string_view line, Entry& entry) const {
  const auto columns = split(line);
  const bool map = kind_ == Kind::map;
  const std::size_t least = !map && keys_ ? 3 : 2;
  if (columns.size() < least || columns.size() > 3)
    return LineFault{line.substr(0, 80),
                     fmt::format("the line has {} column{}", columns.size(), columns.size() == 1 ? "" : "s"),
                     map ? "write path<TAB>label or key<TAB>path<TAB>label"
                         : "write label<TAB>base64 or key<TAB>label<TAB>base64, all lines alike"};
  const bool key = map ? columns.size() == 3 : keys_;
  entry.key = key ? columns[0] : std::string_view{};
  entry.image = columns[map ? (key ? 1 : 0) : (key ? 2 : 1)];
  const std::string_view label = trimmed(columns[map ? (key ? 2 : 1) : (key ? 1 : 0)], beside_text);
  if (!map) entry.image = trimmed(entry.image, beside_text);
  if (entry.image.empty()) return LineFault{line.substr(0, 80), "the line names no image", "remove it, or fill it in"};
  const auto [end, error] = std::from_chars(label.data(), label.data() + label.size(), entry.label);
  if (label.empty() || end != label.data() + label.size() || error == std::errc::invalid_argument)
    return LineFault{label.empty() ? line.substr(0, 80) : label,
                     fmt::format("the label '{}' is not a whole number", label), "labels are class numbers from 0 on"};
  if (error != std::errc() || entry.label < 0 || entry.label >= label_dim_)
    return LineFault{label, fmt::format("the label {} is outside 0 to {}", label, label_dim_ - 1),
                     error == std::errc() ? dim_fix("labelDim", entry.label) : "labels are class numbers from 0 on"};
  return std::nullopt;
}

void ImageList::scan(std::int64_t label_dim, FaultBudget& budget) {
  label_dim_ = label_dim;
  if (!file_ && sub_folders_ != label_dim)
    budget.warn({{},
                 fmt::format("'{}' has {} sub-folders, but labelDim = {}: classes are numbered in the order of the "
                             "sub-folders' names, so a missing or extra one shifts those after it",
                             path_, sub_folders_, label_dim),
                 "give every class a sub-folder, an empty one if it has no images; or list the images in a map"});
  offsets_.clear();
  numbers_.clear();
  std::uint32_t number = 0;
  if (file_) file_->expect(MappedFile::Access::in_order);
  each_line_of(text_, [&](std::size_t line_number, std::uint64_t offset, std::string_view line) {
    if (trimmed(line, beside_text).empty()) return;
    if (number == 0) keys_ = kind_ == Kind::base64 && split(line).size() == 3;
    Entry entry;
    if (const auto fault = read_line(line, entry)) {
      if (numbers_.empty())
        for (std::uint32_t i = 0; i < offsets_.size(); ++i) numbers_.push_back(i);
      budget.fault({line_place(path_, line_number, line, fault->part), fault->message, fault->fix});
    } else {
      offsets_.push_back(offset);
      if (offsets_.size() <= number) numbers_.push_back(number);
    }
    if (++number == SequenceIndex::most_sequences) throw Error(fmt::format("reading '{}': too many images", path_));
  });
  if (file_) {
    file_->expect(MappedFile::Access::unknown);
    file_->release(file_->bytes().data(), file_->bytes().data() + file_->bytes().size());
  }
  if (offsets_.empty())
    throw ConfigError({}, fmt::format("'{}' names no usable image", path_),
                      kind_ == Kind::map
                          ? "a map has lines of path<TAB>label; a folder has one sub-folder for each class"
                          : "its lines are label<TAB>base64");
}

void ImageList::remove(const std::vector<std::uint32_t>& images) {
  if (images.empty()) return;
  if (numbers_.empty())
    for (std::uint32_t i = 0; i < size(); ++i) numbers_.push_back(i);
  std::size_t to = images.front(), next = 0;
  for (std::size_t i = to; i < offsets_.size(); ++i) {
    if (next < images.size() && images[next] == i) {
      ++next;
      continue;
    }
    offsets_[to] = offsets_[i];
    numbers_[to++] = numbers_[i];
  }
  offsets_.resize(to);
  numbers_.resize(to);
}

ImageList::Entry ImageList::entry(std::uint32_t image) const {
  Entry entry;
  read_line(line_at(text_, offsets_[image]), entry);  // known to be good
  return entry;
}

std::string ImageList::key(std::uint32_t image) const {
  const Entry e = entry(image);
  return e.key.empty() ? std::to_string(numbers_.empty() ? image : numbers_[image]) : std::string(e.key);
}

std::string ImageList::file_of(std::string_view path) const {
  if (path.starts_with("...")) return fmt::format("{}{}", directory_, path.substr(3));
  return std::string(path);
}

Diagnostic ImageList::diagnostic(std::uint32_t image, std::string message, std::string fix) const {
  const std::string_view line = line_at(text_, offsets_[image]);
  Entry entry;
  read_line(line, entry);
  const std::string_view part = kind_ == Kind::map ? entry.image : entry.image.substr(0, 8);
  return {line_place(path_, line_of(image), line, part), std::move(message), std::move(fix)};
}

}  // namespace tutti::reader
