// SPDX-License-Identifier: Apache-2.0
// image_bytes.h -- the bytes of an image file: from the file system, a zip archive ("archive.zip@/inner/path"), or
// base64 text.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "reader/buffer.h"

namespace tutti::reader {

class ImageFiles {
 public:
  ImageFiles();
  ~ImageFiles();
  // Reads the whole file; throws BadImage if it cannot be read. Thread-safe.
  void read(const std::string& path, Buffer<unsigned char>& to);
  // Why the file cannot be read, as far as can be told without reading it; "" if it can.
  std::string missing(const std::string& path);

 private:
  class Archive;
  Archive& archive(const std::string& path);

  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Archive>, std::less<>> archives_;
};

// Throws BadImage for invalid base64.
void decode_base64(std::string_view text, Buffer<unsigned char>& to);

}  // namespace tutti::reader
