// SPDX-License-Identifier: Apache-2.0
// Parses the sequences of this rank's share directly into the share.
#include "reader/text/text_source.h"

#include <fmt/format.h>

#include <algorithm>

namespace tutti::reader {

TextSource::TextSource(TextSourceOptions options) : options_(std::move(options)), file_(options_.path) {
  layout_.streams = options_.streams;
  for (const auto& s : layout_.streams) infos_.push_back({s.name, s.dim, s.sparse});
}

const TextIndex& TextSource::text_index() {
  if (!index_) {
    index_ = scan_text(file_, layout_, options_.index);
    layout_.ids = index_->ids;
    if (options_.keep_always || index_->parsed_bytes <= options_.keep_bytes) cache_.emplace(index_->offsets.size());
    // Read-ahead at random places would fill memory with unused pages.
    if (options_.scattered && !cache_) file_.expect(MappedFile::Access::random);
  }
  return *index_;
}

void TextSource::begin_epoch() { file_.check_unchanged(); }

void TextSource::read(std::span<const std::uint32_t> sequences, Share& share) {
  constexpr std::size_t neighbourhood = 64 << 10;  // what the system maps around a page that is touched
  const std::string_view text = file_.bytes();
  const char* const end = text.data() + index_->end;
  RowParser<true> parser(layout_, text.data(), text.data() + text.size(), nullptr, &share);
  for (const std::uint32_t sequence : sequences) {
    if (cache_ && cache_->copy(sequence, share)) continue;
    const char* const at = text.data() + index_->offsets[sequence];
    const char* const behind = read_sequence(parser, layout_, at, end, share, scratch_);
    sparse_rows_ += std::max(static_cast<std::size_t>(behind - at), neighbourhood);
    if (cache_) cache_->keep(sequence, share);
  }
  // Pages of the file that were read would otherwise stay mapped, look like memory of this process, and count against
  // limits.
  constexpr std::size_t range = 256 << 20;
  if (sparse_rows_ >= range) {
    file_.release(text.data(), text.data() + text.size());
    sparse_rows_ = 0;
  }
}

std::string TextSource::key(std::uint32_t sequence) {
  if (!index_->ids) return std::to_string(sequence);
  std::uint64_t id = 0;
  sequence_id(file_.bytes().data() + index_->offsets[sequence], id);
  return std::to_string(id);
}

std::string TextSource::place(std::uint32_t sequence) {
  const char* const begin = file_.bytes().data();
  return fmt::format("{}:{}", file_.path(), 1 + std::count(begin, begin + index_->offsets[sequence], '\n'));
}

}  // namespace tutti::reader
