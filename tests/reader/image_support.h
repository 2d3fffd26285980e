// SPDX-License-Identifier: Apache-2.0
// image_support.h -- small pictures made up on the spot, written as PNG and JPEG files, for the tests of image readers.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <jpeglib.h>
#include <png.h>

#include "reader_support.h"

namespace tutti::reader {

struct Picture {
  std::size_t width = 0, height = 0, channels = 3;
  std::vector<std::uint8_t> pixels;  // B, G, R or grey

  std::uint8_t at(std::size_t x, std::size_t y, std::size_t c = 0) const {
    return pixels[(y * width + x) * channels + c];
  }
};

// Every pixel another one: what is moved, mirrored or mixed up shows.
inline Picture numbered(std::size_t width, std::size_t height, std::size_t channels = 3, unsigned salt = 0) {
  Picture p{width, height, channels, std::vector<std::uint8_t>(width * height * channels)};
  for (std::size_t i = 0; i < p.pixels.size(); ++i)
    p.pixels[i] = static_cast<std::uint8_t>((i * 7 + i / 13 * 31 + salt * 57) % 251);
  return p;
}
// Nothing that JPEG could not keep.
inline Picture plain(std::size_t width, std::size_t height, std::uint8_t b, std::uint8_t g, std::uint8_t r) {
  Picture p{width, height, 3, std::vector<std::uint8_t>(width * height * 3, b)};
  for (std::size_t i = 0; i < width * height; ++i) p.pixels[3 * i + 1] = g, p.pixels[3 * i + 2] = r;
  return p;
}

inline std::string png_of(const Picture& p) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(p.width);
  image.height = static_cast<png_uint_32>(p.height);
  image.format = p.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_BGR;
  png_alloc_size_t size = 0;
  if (!png_image_write_to_memory(&image, nullptr, &size, 0, p.pixels.data(), 0, nullptr)) std::abort();
  std::string file(size, '\0');
  if (!png_image_write_to_memory(&image, file.data(), &size, 0, p.pixels.data(), 0, nullptr)) std::abort();
  file.resize(size);
  return file;
}

inline std::string jpeg_of(const Picture& p, int quality = 95, bool progressive = false) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = static_cast<JDIMENSION>(p.width);
  info.image_height = static_cast<JDIMENSION>(p.height);
  info.input_components = static_cast<int>(p.channels);
  info.in_color_space = p.channels == 1 ? JCS_GRAYSCALE : p.channels == 4 ? JCS_CMYK : JCS_EXT_BGR;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  if (progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  for (std::size_t y = 0; y < p.height; ++y) {
    auto* row = const_cast<JSAMPROW>(p.pixels.data() + y * p.width * p.channels);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string file(reinterpret_cast<char*>(bytes), size);
  std::free(bytes);
  return file;
}

// A folder that lives as long as the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    static int count = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("tutti_images_" + std::to_string(::getpid()) + "_" + std::to_string(count++));
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string path(const std::string& name = "") const {
    return name.empty() ? path_.string() : (path_ / name).string();
  }
  std::string write(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << content;
    return path(name);
  }

 private:
  std::filesystem::path path_;
};

}  // namespace tutti::reader
