// SPDX-License-Identifier: Apache-2.0
// image_bytes.h -- the bytes of an image file: from the file system, out of a zip archive ("archive.zip@/inner/path"),
// or from base64 text.
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
  // Reads the whole file; throws BadImage when it cannot be read. Safe for several threads at once.
  void read(const std::string& path, Buffer<unsigned char>& to);
  // Why it cannot be read, as far as can be told without reading it; "" when it can.
  std::string missing(const std::string& path);

 private:
  class Archive;
  Archive& archive(const std::string& path);

  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Archive>, std::less<>> archives_;
};

// Throws BadImage on what is no base64.
void decode_base64(std::string_view text, Buffer<unsigned char>& to);

}  // namespace tutti::reader
