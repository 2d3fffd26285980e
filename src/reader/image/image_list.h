// SPDX-License-Identifier: Apache-2.0
// image_list.h -- the list of images: the lines of a map file or of a file of base64 text, or a folder with one
// sub-folder per class. Memory holds one number per image; lines are read again from the mapped file on demand.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reader/fault_budget.h"
#include "reader/lines.h"
#include "reader/mapped_file.h"

namespace tutti::reader {

class ImageList {
 public:
  enum class Kind { map, base64 };
  struct Entry {
    std::string_view key;    // empty when the line has none
    std::string_view image;  // a path as written, or base64 text
    std::int64_t label = 0;
  };

  ImageList(Kind, std::string path);  // a file, or for maps also a folder
  // Finds the valid lines; the others are faults, the same on every rank.
  void scan(std::int64_t label_dim, FaultBudget&);
  void begin_epoch() const;

  std::uint32_t size() const { return static_cast<std::uint32_t>(offsets_.size()); }
  Entry entry(std::uint32_t image) const;
  std::string key(std::uint32_t image) const;
  // Removes these images, given in ascending order.
  void remove(const std::vector<std::uint32_t>& images);

  // The path of an image in a map: "..." at its start is the directory of the map.
  std::string file_of(std::string_view path) const;
  std::size_t line_of(std::uint32_t image) const { return line_number(text_, offsets_[image]); }
  Diagnostic diagnostic(std::uint32_t image, std::string message, std::string fix) const;
  const std::string& path() const { return path_; }

 private:
  std::optional<LineFault> read_line(std::string_view line, Entry&) const;
  void list_folder();

  Kind kind_;
  std::string path_, directory_;
  std::optional<MappedFile> file_;
  std::string folder_;  // the lines of a map that a folder amounts to
  std::int64_t sub_folders_ = 0;
  std::string_view text_;  // of either
  std::int64_t label_dim_ = 0;
  bool keys_ = false;  // base64: the lines start with a key
  std::vector<std::uint64_t> offsets_;
  std::vector<std::uint32_t> numbers_;  // of lines among all lines with content, when some are missing
};

}  // namespace tutti::reader
