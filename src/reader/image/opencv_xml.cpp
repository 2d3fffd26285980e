// SPDX-License-Identifier: Apache-2.0
// Elements are told apart by their path below the root; what else XML can do does not occur in these files.
#include "reader/image/opencv_xml.h"

#include <expat.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

#include "reader/lines.h"
#include "tutti/error.h"

namespace tutti::reader {
namespace {

struct FreeParser {
  void operator()(XML_ParserStruct* p) const { XML_ParserFree(p); }
};

struct Walk {
  std::vector<std::string> path;
  std::map<std::string, std::string>* texts;
};

void on_start(void* user, const XML_Char* name, const XML_Char**) {
  auto& walk = *static_cast<Walk*>(user);
  walk.path.push_back(walk.path.size() < 2 ? std::string(name) : walk.path.back() + "/" + name);
}
void on_end(void* user, const XML_Char*) { static_cast<Walk*>(user)->path.pop_back(); }
void on_text(void* user, const XML_Char* text, int n) {
  auto& walk = *static_cast<Walk*>(user);
  if (walk.path.size() >= 2) (*walk.texts)[walk.path.back()].append(text, static_cast<std::size_t>(n));
}

// Expat 2.9 deprecates the function of earlier versions.
std::uint64_t line_number(XML_ParserStruct* parser) {
#if XML_MAJOR_VERSION > 2 || XML_MINOR_VERSION >= 9
  return XML_GetCurrentLineNumber64(parser);
#else
  return XML_GetCurrentLineNumber(parser);
#endif
}

}  // namespace

OpencvXml::OpencvXml(std::string path) : path_(std::move(path)) {
  std::ifstream file(path_, std::ios::binary);
  if (!file) fail(std::strerror(errno));
  const std::string content{std::istreambuf_iterator<char>(file), {}};
  if (content.size() > (std::size_t{1} << 30)) fail("it is too large for such a file");
  const std::unique_ptr<XML_ParserStruct, FreeParser> parser(XML_ParserCreate(nullptr));
  Walk walk{{}, &texts_};
  XML_SetUserData(parser.get(), &walk);
  XML_SetElementHandler(parser.get(), on_start, on_end);
  XML_SetCharacterDataHandler(parser.get(), on_text);
  if (XML_Parse(parser.get(), content.data(), static_cast<int>(content.size()), XML_TRUE) != XML_STATUS_OK)
    fail(fmt::format("line {}: {}", line_number(parser.get()), XML_ErrorString(XML_GetErrorCode(parser.get()))));
}

void OpencvXml::fail(const std::string& why) const {
  throw Error(fmt::format("reading the OpenCV XML file '{}': {}", path_, why));
}

const std::string& OpencvXml::text(const std::string& name) const {
  const auto at = texts_.find(name);
  if (at == texts_.end()) fail(fmt::format("it has no element <{}>", name));
  return at->second;
}

std::int64_t OpencvXml::integer(const std::string& name) const {
  const std::string_view t = trimmed(text(name));
  std::int64_t value = 0;
  if (!read_whole(t, value) || value < 0)
    fail(fmt::format("<{}> holds '{}' instead of a count", name, t.substr(0, 40)));
  return value;
}

OpencvXml::Matrix OpencvXml::matrix(const std::string& name) const {
  Matrix m;
  m.rows = static_cast<std::size_t>(integer(name + "/rows"));
  m.columns = static_cast<std::size_t>(integer(name + "/cols"));
  // The element type: a letter, "f" say, with the number of channels before it when there are several.
  std::string type(trimmed(text(name + "/dt")));
  std::erase(type, '"');
  std::size_t digits = 0;
  while (digits < type.size() && type[digits] >= '0' && type[digits] <= '9') ++digits;
  if (digits > 0) std::from_chars(type.data(), type.data() + digits, m.channels);
  if (type.size() != digits + 1 || digits > 3 || m.channels == 0)
    fail(fmt::format("<{}/dt> is '{}'; f, d, u or 3f are such types", name, type));
  const std::string& data = text(name + "/data");
  const char* at = data.data();
  const char* const end = at + data.size();
  for (;;) {
    while (at < end && is_blank(*at)) ++at;
    if (at == end) break;
    float value = 0;
    const auto [behind, error] = std::from_chars(at, end, value);
    if (error != std::errc())
      fail(fmt::format("<{}> holds '{}' instead of number {}", name, std::string(at, std::min(at + 20, end)),
                       m.values.size() + 1));
    m.values.push_back(value);
    at = behind;
  }
  if (m.values.size() != m.rows * m.columns * m.channels)
    fail(fmt::format("<{}> has {} numbers, not {} x {} x {}", name, m.values.size(), m.rows, m.columns, m.channels));
  return m;
}

}  // namespace tutti::reader
