// SPDX-License-Identifier: Apache-2.0
// event_file.h -- the format of TensorBoard's event files: framed records (length with its masked CRC-32C, data
// with theirs), each a message `Event` in the wire format of protocol buffers. Field numbers are those of TensorBoard's
// event.proto and summary.proto.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti::event_file {

std::uint32_t crc32c(std::string_view);  // Castagnoli, as in iSCSI

// Events, not framed. Times are seconds since 1970.
std::string version_event(double time);  // the first of every file
std::string scalars_event(double time, std::int64_t step, const std::vector<std::pair<std::string, double>>& by_tag);
// Readers discard events of this and later steps that they have seen before.
std::string restart_event(double time, std::int64_t step);

std::string framed(std::string_view event);

// The event at `offset` of a file's bytes, and the offset after it; empty at the end, and where the file is damaged.
struct Found {
  std::string_view event;
  std::size_t next = 0;
};
std::optional<Found> read_event(std::string_view file, std::size_t offset);
std::int64_t step_of(std::string_view event);  // 0 if it has none

}  // namespace tutti::event_file
