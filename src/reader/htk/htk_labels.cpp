// SPDX-License-Identifier: Apache-2.0
// Master label files: "#!MLF!#", then per utterance its quoted name, lines of start, end and state, and a full stop.
// A file may consist of several such files, one after the other.
#include "reader/htk/htk_labels.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"
#include "reader/fault_budget.h"
#include "reader/mapped_file.h"

namespace tutti::reader {
namespace {

constexpr std::string_view head_line = "#!MLF!#";
constexpr std::uint64_t frame_time = 100'000;  // 10 ms in units of 100 ns
std::uint64_t frame_at(std::uint64_t time) { return (time + frame_time / 2) / frame_time; }

std::string_view base_name(std::string_view key) {
  const std::size_t slash = key.find_last_of("/\\");
  return slash == std::string_view::npos ? key : key.substr(slash + 1);
}

std::string any_folder_of(std::string_view name) { return "*/" + std::string(name); }

}  // namespace

// One file, line by line. An utterance with an error is read to its end and skipped.
class HtkLabels::Parser {
 public:
  Parser(HtkLabels& labels, std::uint32_t file, FaultBudget& budget)
      : labels_(labels), path_(labels.options_.files[file]), file_number_(file), file_(path_), budget_(budget) {}

  void run() {
    std::string_view text = file_.bytes();
    text.remove_prefix(byte_order_mark_size(text));
    bool head = false;
    for (number_ = 1; !text.empty(); ++number_) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      line_ = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      while (!line_.empty() && is_blank(line_.back())) line_.remove_suffix(1);
      if (line_.empty()) continue;
      if (!head) {
        head = line_ == head_line;
        if (!head) {
          fault("a master label file starts with #!MLF!#", {});
          return;
        }
      } else {
        take_line();
      }
    }
    if (!head) budget_.fault(fmt::format("the label file '{}' is empty", path_), {});
    if (open_) {
      fault(fmt::format("the file ends within the utterance '{}'", now_.key),
            "it may be cut off: an utterance ends with a line '.'");
      drop();
    }
  }

 private:
  void fault(std::string message, std::string fix) {
    budget_.fault({line_place(path_, number_, line_, 0, line_.size()), std::move(message), std::move(fix)});
  }
  void drop() {
    labels_.dropped_.insert(now_.any_folder ? any_folder_of(now_.key) : now_.key);
    labels_.runs_.resize(now_.first);
    open_ = false;
  }

  void take_line() {
    const bool begins = line_.front() == '"';
    if (begins || line_ == head_line) {
      if (open_) {
        fault(fmt::format("the utterance '{}' has no end", now_.key), "an utterance ends with a line '.'");
        drop();
      }
      skipping_ = false;
      if (begins) begin();
    } else if (!open_) {
      if (!skipping_) fault("a line outside an utterance", "an utterance begins with its name in quotes");
      if (line_ == ".") skipping_ = false;
    } else if (line_ == ".") {
      finish();
    } else if (!segment()) {
      drop();
      skipping_ = true;
    }
  }

  void begin() {
    std::string_view name = line_.substr(1);
    if (!name.empty() && name.back() == '"') name.remove_suffix(1);
    const bool any = name.starts_with("*/");
    if (any) name.remove_prefix(2);
    now_ = {without_extension(std::string(name)),
            0,
            static_cast<std::uint32_t>(number_),
            file_number_,
            labels_.runs_.size(),
            any};
    open_ = true;
  }

  void finish() {
    if (now_.frames == 0) {
      fault(fmt::format("the utterance '{}' has no frames", now_.key), {});
      drop();
      return;
    }
    labels_.utterances_.push_back(now_);
    open_ = false;
  }

  bool segment() {
    std::string_view rest = line_;
    const std::string_view from = take_word(rest), to = take_word(rest), state = take_word(rest);
    std::uint64_t begin = 0, end = 0;
    if (state.empty() || !read_whole(from, begin) || !read_whole(to, end)) {
      fault("this is no line of a label: start, end, state", "start and end are whole numbers of 100 ns, or of frames");
      return false;
    }
    // As in CNTK, start and end that are less than a frame's time apart are frame numbers. An exception: if they
    // continue the segment before only as times, they are times of a segment shorter than a frame.
    if (end - begin >= frame_time - 1 || (now_.frames > 0 && frame_at(begin) == now_.frames))
      begin = frame_at(begin), end = frame_at(end);
    if (begin != now_.frames || end < begin || end > UINT32_MAX / 2) {
      fault(fmt::format("the segment covers the frames from {} to {}, but the one before ended at {}", begin, end,
                        now_.frames),
            "segments follow each other without gaps, in units of 100 ns (a frame is 100000) or in frames");
      return false;
    }
    std::int32_t label = 0;
    if (!find_class(state, rest, label)) return false;
    if (end > begin) labels_.runs_.push_back({static_cast<std::uint32_t>(end), label});
    now_.frames = static_cast<std::uint32_t>(end);
    return true;
  }

  // `rest`: the columns after the state.
  bool find_class(std::string_view state, std::string_view rest, std::int32_t& label) {
    const HtkLabelOptions& o = labels_.options_;
    if (o.mapping.empty()) {
      // A fourth column that is a class number counts; it may also be a score.
      const std::string_view fourth = take_word(rest);
      if (rest.empty() && read_whole(fourth, label) && label >= 0) state = fourth;
      const bool number = read_whole(state, label);
      if (number && label >= 0 && label < o.dim) return true;
      fault(fmt::format("the state '{}' is not a class from 0 to {}", state, o.dim - 1),
            number && label >= 0 ? dim_fix("labelDim", label, labels_.info_.name)
                                 : "labelMappingFile names a file with one state name per line");
      return false;
    }
    const auto known = labels_.classes_.find(std::string(state));
    if (known == labels_.classes_.end()) {
      fault(fmt::format("the state '{}' is not in '{}'", state, o.mapping), {});
      return false;
    }
    label = known->second;
    return true;
  }

  HtkLabels& labels_;
  const std::string& path_;
  std::uint32_t file_number_;
  MappedFile file_;
  FaultBudget& budget_;
  std::size_t number_ = 0;
  std::string_view line_;
  Utterance now_;
  bool open_ = false, skipping_ = false;
};

HtkLabels::HtkLabels(const std::string& name, HtkLabelOptions options, FaultBudget& budget)
    : UtteranceStream({name, static_cast<std::size_t>(options.dim), options.sparse}), options_(std::move(options)) {
  each_line(options_.list, [&](std::size_t, const std::string& path) { options_.files.push_back(path); });
  if (!options_.mapping.empty()) classes_ = read_class_names(options_.mapping, "state", true, options_.dim, name);
  for (std::uint32_t f = 0; f < options_.files.size(); ++f) try {
      Parser(*this, f, budget).run();
    } catch (const Error& e) {
      budget.fault(e.what(), {});
    }
  index_names([&](std::size_t u) {
    budget.fault(fmt::format("{}: a second utterance with the name '{}'", place(u), utterances_[u].key),
                 "the first one counts");
  });
}

std::size_t HtkLabels::find(std::string_view key) const {
  if (const std::size_t known = UtteranceStream::find(key); known != none) return known;
  const std::size_t known = UtteranceStream::find(base_name(key));
  return known != none && utterances_[known].any_folder ? known : none;
}

bool HtkLabels::dropped(std::string_view key) const {
  return UtteranceStream::dropped(key) || UtteranceStream::dropped(any_folder_of(base_name(key)));
}

std::string HtkLabels::place(std::size_t u) const {
  return fmt::format("{}:{}", options_.files[utterances_[u].file], utterances_[u].line);
}

void HtkLabels::append(std::size_t utterance, std::uint32_t first, std::uint32_t count, StreamBuffer& to) {
  const bool last = utterance + 1 == utterances_.size();
  const Run *const begin = runs_.data() + utterances_[utterance].first, *const end =
                                                                            runs_.data() +
                                                                            (last ? runs_.size()
                                                                                  : utterances_[utterance + 1].first);
  auto run = std::partition_point(begin, end, [&](const Run& r) { return r.end <= first; });
  for (std::uint32_t t = first; t < first + count; ++t) {
    while (run->end <= t) ++run;
    to.add_one_hot(static_cast<std::size_t>(run->label));
  }
}

}  // namespace tutti::reader
