// SPDX-License-Identifier: Apache-2.0
// The scan: byte order mark, sequence ids, the checks that concern a sequence as a whole, and chunks.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/utf8.h"
#include "reader/lines.h"
#include "reader/text/text_source.h"

namespace tutti::reader {
namespace {

class Scan {
 public:
  Scan(const MappedFile& file, const TextReaderOptions& options)
      : file_(file),
        options_(options),
        layout_(options.layout()),
        text_(file.bytes()),
        faults_(file.path(), text_, layout_, options.max_errors, options.trace_level),
        samples_(layout_.streams.size()) {}

  TextIndex run();

 private:
  const char* find_start();
  const char* find_end(const char* begin);
  void check_sequence(const char* at, const char* behind, std::uint32_t rows);
  void drop();
  void count_frame(const char* at);
  void end_frames();
  void add_sequence(const char* at, const char* behind, std::uint32_t longest);
  void release_read(const char* to);

  const MappedFile& file_;
  const TextReaderOptions& options_;
  TextLayout layout_;
  std::string_view text_;
  TextFaults faults_;
  TextIndex index_;
  std::vector<std::uint32_t> samples_;  // per stream, of the sequence at hand
  std::int64_t errors_before_ = 0;      // counted before the sequence at hand
  bool cut_off_ = false;                // the last line has no newline
  bool frame_keys_ = false;             // of a deserializer in frame mode
  TextIndex::Frame frame_;              // the line at hand; `behind` counts the lines of its id
  const char* chunk_begin_ = nullptr;
  const char* released_ = nullptr;
  std::size_t dropped_ = 0;
};

const char* Scan::find_start() {
  const char* p = text_.data();
  if (text_.empty())
    throw ConfigError({}, fmt::format("Input file is empty ({})", file_.path()), "name a file with data");
  refuse_gzip(file_.path(), text_);
  if (text_.starts_with("\xFF\xFE") || text_.starts_with("\xFE\xFF"))
    throw ConfigError({}, fmt::format("{}: the file is UTF-16", file_.path()), "convert it: iconv -f UTF-16 -t UTF-8");
  return p + byte_order_mark_size(text_);
}

// A last line without its newline may be cut off anywhere, so none of it can be trusted.
const char* Scan::find_end(const char* begin) {
  const std::size_t last = text_.rfind('\n');
  const char* const end = last == std::string_view::npos ? begin : std::max(begin, text_.data() + last + 1);
  const std::string_view tail(end, static_cast<std::size_t>(text_.data() + text_.size() - end));
  cut_off_ = std::any_of(tail.begin(), tail.end(), [](char c) { return static_cast<unsigned char>(c) > ' '; });
  return end;
}

TextIndex Scan::run() {
  const char* p = find_start();
  const char* const end = find_end(p);
  const char* const file_end = text_.data() + text_.size();
  layout_.ids = !options_.skip_sequence_ids && !options_.frame_mode && p < file_end && *p != '|';
  index_.ids = layout_.ids;
  frame_keys_ = options_.deserializer && options_.frame_mode && !options_.skip_sequence_ids && p < end && is_digit(*p);
  if (layout_.ids && p < end && !is_digit(*p))
    faults_.fatal(p, 1, "expected a sequence id (digits) or '|' at the start of the file",
                  "every sequence starts with its id, or no line has one: |name value value ...");
  RowParser<false> parser(layout_, text_.data(), file_end, &faults_, nullptr);
  chunk_begin_ = released_ = p;
  while (p < end) {
    const char* const at = p;
    std::fill(samples_.begin(), samples_.end(), 0);
    errors_before_ = faults_.errors();
    const std::uint32_t rows = rows_of_sequence(parser, layout_, p, end, samples_.data());
    if (frame_keys_) count_frame(at);
    check_sequence(at, p, rows);
    release_read(p);
  }
  end_frames();
  if (cut_off_) {
    const char* const to = file_end - 1;
    for (const char* what : {"the last line has no newline: its sample is lost", "the last line is not a whole line"})
      faults_.fault(to, 1, what, "the file may be cut off; if it is not, add a newline at its end");
  }
  if (index_.sequences.sequences() == 0)
    throw ConfigError({}, fmt::format("{}: the file has no usable sequence", file_.path()),
                      "see docs/readers/text.md for the format");
  faults_.summarize(dropped_);
  index_.parsed_bytes += parser.sparse_items() * (sizeof(float) + sizeof(std::int32_t));
  index_.end = static_cast<std::uint64_t>(end - text_.data());
  return std::move(index_);
}

void Scan::check_sequence(const char* at, const char* behind, std::uint32_t rows) {
  const auto line_length = [&] { return static_cast<std::size_t>(std::find(at, behind, '\n') - at); };
  std::uint32_t longest = 0;
  bool too_many = false;
  for (std::size_t s = 0; s < samples_.size(); ++s) {
    const auto& stream = layout_.streams[s];
    if (samples_[s] == 0) {
      // If an error removed the sample, it was counted already.
      if (faults_.errors() > errors_before_) {
        drop();
        return;
      }
      faults_.fatal(
          at, line_length(),
          fmt::format("Malformed input file. Bailing out: {} has no sample of stream '{}'",
                      layout_.ids ? "the sequence that starts here" : "this line", stream.alias),
          fmt::format(
              "every sequence needs |{} at least once; if the file calls the stream otherwise, say so with alias",
              stream.alias));
    }
    if (samples_[s] > rows) {
      too_many = true;
      faults_.fault(
          at, line_length(),
          fmt::format("stream '{}' has {} samples in {} line{}", stream.alias, samples_[s], rows, rows == 1 ? "" : "s"),
          "a line holds at most one sample of a stream");
      samples_[s] = rows;
    }
    longest = std::max(longest, samples_[s]);
  }
  if (longest < rows && !too_many)
    faults_.fault(at, line_length(),
                  fmt::format("the sequence that starts here has {} lines, but no stream has more than {} samples",
                              rows, longest),
                  "one stream at least has a sample on every line of a sequence");
  add_sequence(at, behind, longest);
}

void Scan::drop() {
  if (dropped_++ > 0 || layout_.ids) return;
  index_.numbers.resize(index_.offsets.size());
  std::iota(index_.numbers.begin(), index_.numbers.end(), 0u);
}

// A line without an id has that of the line before.
void Scan::count_frame(const char* at) {
  std::uint64_t id = 0;
  if (!sequence_id(at, id)) id = frame_.id;
  if (id != frame_.id) {
    end_frames();
    frame_ = {id};
  }
  frame_.number = frame_.behind++;
}

// Lines that were dropped count as well.
void Scan::end_frames() {
  if (index_.frames.empty()) return;
  auto& last = index_.frames.back();
  if (last.id == frame_.id && last.behind == 0) last.behind = frame_.behind;
}

void Scan::add_sequence(const char* at, const char* behind, std::uint32_t longest) {
  if (index_.sequences.sequences() == SequenceIndex::most_sequences)
    throw Error(fmt::format("reading {}: more than {} sequences in one file; split it", file_.path(),
                            SequenceIndex::most_sequences));
  const bool first = index_.offsets.empty();
  if (first || behind - chunk_begin_ > options_.chunk_bytes) {
    if (!first) chunk_begin_ = at;
    index_.sequences.begin_chunk();
  }
  index_.sequences.add(longest);
  index_.offsets.push_back(static_cast<std::uint64_t>(at - text_.data()));
  if (frame_keys_) index_.frames.push_back({frame_.id, frame_.number});
  if (dropped_ > 0 && !layout_.ids)
    index_.numbers.push_back(static_cast<std::uint32_t>(index_.offsets.size() - 1 + dropped_));
  for (std::size_t s = 0; s < samples_.size(); ++s)
    if (!layout_.streams[s].sparse) index_.parsed_bytes += sizeof(float) * samples_[s] * layout_.streams[s].dim;
}

// Releases the pages behind the scan, whatever the size of the file.
void Scan::release_read(const char* to) {
  constexpr std::ptrdiff_t range = 64 << 20;
  if (to - released_ < range) return;
  file_.release(released_, to);
  released_ = to;
}

}  // namespace

TextIndex scan_text(const MappedFile& file, const TextReaderOptions& options) {
  file.expect(MappedFile::Access::in_order);
  TextIndex index = Scan(file, options).run();
  file.expect(MappedFile::Access::unknown);
  file.release(file.bytes().data(), file.bytes().data() + file.bytes().size());
  return index;
}

}  // namespace tutti::reader
