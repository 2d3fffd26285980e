// SPDX-License-Identifier: Apache-2.0
// opencv_xml.h -- numbers and matrices out of the XML files that OpenCV writes (mean images, colour statistics).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tutti::reader {

class OpencvXml {
 public:
  struct Matrix {
    std::size_t rows = 0, columns = 0, channels = 1;
    std::vector<float> values;  // row by row, channels fastest
  };

  explicit OpencvXml(std::string path);  // throws Error, as all of these do
  std::int64_t integer(const std::string& name) const;
  Matrix matrix(const std::string& name) const;

 private:
  const std::string& text(const std::string& name) const;
  [[noreturn]] void fail(const std::string& why) const;

  std::string path_;
  std::map<std::string, std::string> texts_;  // by element: "Row", "MeanImg/rows", "MeanImg/data"
};

}  // namespace tutti::reader
