// SPDX-License-Identifier: Apache-2.0
#include "train/metrics/event_file.h"

#include <array>
#include <cstring>

namespace tutti::event_file {
namespace {

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
    table[i] = crc;
  }
  return table;
}

// So that the checksum of data that contain checksums is not weak.
std::uint32_t masked_crc(std::string_view data) {
  const std::uint32_t crc = crc32c(data);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

// Little-endian, as is the wire format.
template <class T>
std::string bytes_of(T value) {
  std::string bytes(sizeof value, '\0');
  for (std::size_t i = 0; i < sizeof value; ++i) bytes[i] = static_cast<char>(value >> 8 * i & 0xff);
  return bytes;
}
template <class T>
T integer_at(std::string_view bytes) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i) value |= static_cast<T>(static_cast<unsigned char>(bytes[i])) << 8 * i;
  return value;
}

enum WireType : std::uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void put_varint(std::string& to, std::uint64_t value) {
  for (; value > 0x7f; value >>= 7) to += static_cast<char>((value & 0x7f) | 0x80);
  to += static_cast<char>(value);
}
void put_key(std::string& to, std::uint32_t field, WireType type) { put_varint(to, field << 3 | type); }
void put_bytes(std::string& to, std::uint32_t field, std::string_view bytes) {
  put_key(to, field, kBytes);
  put_varint(to, bytes.size());
  to += bytes;
}
void put_double(std::string& to, std::uint32_t field, double value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  put_key(to, field, kFixed64);
  to += bytes_of(bits);
}
void put_float(std::string& to, std::uint32_t field, float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  put_key(to, field, kFixed32);
  to += bytes_of(bits);
}

// Event: wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7.
std::string event_at(double time, std::int64_t step) {
  std::string event;
  put_double(event, 1, time);
  put_key(event, 2, kVarint);
  put_varint(event, static_cast<std::uint64_t>(step));
  return event;
}

// Takes a varint off the front; empty if it is cut.
std::optional<std::uint64_t> take_varint(std::string_view& from) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64 && !from.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(from.front());
    from.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

}  // namespace

std::uint32_t crc32c(std::string_view data) {
  static constexpr auto table = crc_table();
  std::uint32_t crc = ~0u;
  for (const char c : data) crc = table[(crc ^ static_cast<unsigned char>(c)) & 0xff] ^ crc >> 8;
  return ~crc;
}

std::string version_event(double time) {
  std::string event;
  put_double(event, 1, time);
  put_bytes(event, 3, "brain.Event:2");
  return event;
}

// Summary: value = 1; Value: tag = 1, simple_value = 2.
std::string scalars_event(double time, std::int64_t step, const std::vector<std::pair<std::string, double>>& by_tag) {
  std::string summary;
  for (const auto& [tag, scalar] : by_tag) {
    std::string value;
    put_bytes(value, 1, tag);
    put_float(value, 2, static_cast<float>(scalar));
    put_bytes(summary, 1, value);
  }
  std::string event = event_at(time, step);
  put_bytes(event, 5, summary);
  return event;
}

// SessionLog: status = 1, of which START is 1.
std::string restart_event(double time, std::int64_t step) {
  std::string event = event_at(time, step), log;
  put_key(log, 1, kVarint);
  put_varint(log, 1);
  put_bytes(event, 7, log);
  return event;
}

std::string framed(std::string_view event) {
  const std::string length = bytes_of(static_cast<std::uint64_t>(event.size()));
  std::string record = length + bytes_of(masked_crc(length));
  record += event;
  return record += bytes_of(masked_crc(event));
}

std::optional<Found> read_event(std::string_view file, std::size_t offset) {
  constexpr std::size_t head = 12, tail = 4;
  if (offset > file.size() || file.size() - offset < head + tail) return std::nullopt;
  const std::string_view rest = file.substr(offset);
  const auto length = integer_at<std::uint64_t>(rest);
  if (integer_at<std::uint32_t>(rest.substr(8)) != masked_crc(rest.substr(0, 8))) return std::nullopt;
  if (length > rest.size() - head - tail) return std::nullopt;
  const std::string_view event = rest.substr(head, length);
  if (integer_at<std::uint32_t>(rest.substr(head + length)) != masked_crc(event)) return std::nullopt;
  return Found{event, offset + head + length + tail};
}

std::int64_t step_of(std::string_view event) {
  while (!event.empty()) {
    const auto key = take_varint(event);
    if (!key) return 0;
    const auto type = static_cast<std::uint32_t>(*key & 7);
    if (type == kVarint) {
      const auto value = take_varint(event);
      if (!value || *key >> 3 == 2) return static_cast<std::int64_t>(value.value_or(0));
      continue;
    }
    std::uint64_t size = type == kFixed64 ? 8 : 4;
    if (type == kBytes) size = take_varint(event).value_or(event.size() + 1);
    if (size > event.size()) return 0;
    event.remove_prefix(size);
  }
  return 0;
}

}  // namespace tutti::event_file
