// SPDX-License-Identifier: Apache-2.0
// The line parser. A bad sample is skipped up to the next '|' or the line end and counted once.
#include "reader/text/row_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "reader/fault_budget.h"

namespace tutti::reader {
namespace {

constexpr std::size_t longest_name = 256;

std::string shown(const char* from, const char* to) {
  const std::string_view text(from, static_cast<std::size_t>(std::min(to - from, std::ptrdiff_t{40})));
  return std::string(text) + (to - from > 40 ? "..." : "");
}

bool is_sequence_id(const char* from, const char* to) {
  std::uint64_t id = 0;
  return to - from < 20 || std::from_chars(from, to, id).ec == std::errc();
}

}  // namespace

template <bool Store>
void RowParser<Store>::fault(const char* at, const char* to, std::string message, std::string fix) {
  faults_->fault(at, static_cast<std::size_t>(std::max(to - at, std::ptrdiff_t{1})), std::move(message),
                 std::move(fix));
}

template <bool Store>
const char* RowParser<Store>::row(const char* p, std::uint32_t* samples) {
  const char* const start = p;
  while (is_digit(*p)) ++p;  // the sequence id
  if (layout_.ids && !is_sequence_id(start, p)) {
    if constexpr (!Store)
      fault(start, p, fmt::format("the sequence id {} is larger than 2^64 - 1", shown(start, p)),
            "number the sequences with smaller ids");
    while (*p != '\n') ++p;
    return p + 1;
  }
  int good = 0;
  for (;; ++p) {
    while (*p == '|') {
      if (sample(p, samples)) {
        ++good;
      } else {
        p = next_stream(p);
      }
    }
    if (*p == '\n') break;
    if (control(*p) || *p == ' ') continue;
    if constexpr (!Store)
      fault(p, word_end(p), fmt::format("expected '|' and a stream name, found '{}'", shown(p, word_end(p))),
            "a line is [sequence id] |name value value ... |name value ...; ids are digits only");
    p = next_stream(p) - 1;
  }
  if constexpr (!Store)
    if (good == 0)
      fault(start, p, p == start ? "a blank line" : "a line without a good sample",
            "every line needs a sample of a stream in input=[...]; remove the line, or put a comment beside data");
  return p + 1;
}

// At '|'. True when a sample was read; else p is anywhere before the next '|' or the line end.
template <bool Store>
bool RowParser<Store>::sample(const char*& p, std::uint32_t* samples) {
  const char* const name = ++p;
  if (*p == '#') return false;
  p = word_end(p);
  const auto length = static_cast<std::size_t>(p - name);
  const std::size_t stream = layout_.find({name, length}, guess_);
  if (stream == TextLayout::none) {
    if constexpr (!Store) {
      if (length == 0) {
        fault(name - 1, name, "a '|' without a stream name", "the name follows the '|' at once: |name value value ...");
      } else if (length > longest_name) {
        fault(name, p, fmt::format("a stream name of {} characters", length),
              fmt::format("names have at most {} characters; is a blank missing after the name?", longest_name));
      } else {
        faults_->unknown_stream(name, {name, length});
      }
    }
    return false;
  }
  guess_ = stream + 1 < layout_.streams.size() ? stream + 1 : 0;
  const bool good = layout_.streams[stream].sparse ? sparse(p, stream) : dense(p, name, stream);
  if (good) ++samples[stream];
  return good;
}

template <bool Store>
bool RowParser<Store>::dense(const char*& p, const char* name, std::size_t stream) {
  const std::size_t dim = layout_.streams[stream].dim;
  StreamBuffer* into = nullptr;
  float* out = nullptr;
  if constexpr (Store) {
    into = &(*share_)[stream];
    out = into->add_dense();
  }
  std::size_t count = 0;
  float value = 0;
  bool good = true;
  while (true) {
    while (blank(*p)) ++p;
    if (*p == '|' || control(*p)) break;
    if (!number(p, value)) {
      good = false;
      break;
    }
    if constexpr (Store)
      if (count < dim) out[count] = value;
    ++count;
  }
  if constexpr (Store) {
    good = good && count <= dim;
    if (good) {
      std::fill(out + count, out + dim, 0.0f);
    } else {
      into->shrink_columns(into->columns - 1);
    }
  } else if (good) {
    if (count > dim) {
      fault(name, word_end(name),
            fmt::format("stream '{}' has {} numbers here, but dim is {}", layout_.streams[stream].alias, count, dim),
            dim_fix("dim", static_cast<std::int64_t>(count) - 1, layout_.streams[stream].name));
      return false;
    }
    if (count < dim) faults_->short_sample(name, stream, count);
  }
  return good;
}

template <bool Store>
bool RowParser<Store>::sparse(const char*& p, std::size_t stream) {
  const std::size_t dim = layout_.streams[stream].dim;
  StreamBuffer* into = nullptr;
  std::size_t before = 0;
  if constexpr (Store) {
    into = &(*share_)[stream];
    before = into->values.size();
  }
  std::int32_t row = 0;
  float value = 0;
  bool good = true;
  while (true) {
    while (blank(*p)) ++p;
    if (*p == '|' || control(*p)) break;
    if (!index(p, stream, dim, row) || !number(p, value)) {
      good = false;
      break;
    }
    ++sparse_items_;
    if constexpr (Store) {
      into->indices.push_back(row);
      into->values.push_back(value);
    }
  }
  if constexpr (Store) {
    if (good) {
      into->end_sparse();
    } else {
      into->values.shrink(before);
      into->indices.shrink(before);
    }
  }
  return good;
}

template <bool Store>
bool RowParser<Store>::index(const char*& p, std::size_t stream, std::size_t dim, std::int32_t& value) {
  const char* const at = p;
  std::uint64_t i = 0;
  for (; is_digit(*p); ++p) i = i < dim ? i * 10 + static_cast<std::uint64_t>(*p - '0') : i;
  const char* const to = p;
  if (to > at && *to == ':' && i < dim) {
    value = static_cast<std::int32_t>(i);
    ++p;
    return true;
  }
  if constexpr (!Store) {
    if (to == at) {
      fault(at, word_end(at), fmt::format("expected a sparse item index:value, found '{}'", shown(at, word_end(at))),
            "an index is a number of digits only; is the stream perhaps dense?");
    } else if (i >= dim) {
      fault(at, to, fmt::format("sparse index {} is outside the stream's dim {}", shown(at, to), dim),
            dim_fix("dim", std::strtoll(at, nullptr, 10), layout_.streams[stream].name));
    } else {
      fault(at, word_end(at), fmt::format("expected ':' after the sparse index {}", shown(at, to)),
            "an item is index:value without blanks; is the stream perhaps dense?");
    }
  }
  return false;
}

template <bool Store>
bool RowParser<Store>::number(const char*& p, float& value) {
  const char* const at = p;
  const NumberFault fault_kind = read_number<Store>(p, fast_end_, value);
  if (fault_kind == NumberFault::none) return true;
  if constexpr (!Store) {
    const std::string word = shown(at, word_end(at));
    if (fault_kind == NumberFault::too_large) {
      fault(at, p, fmt::format("the number '{}' is too large for float32", word), "scale the data");
    } else if (fault_kind == NumberFault::no_exponent) {
      fault(at, word_end(at), fmt::format("'{}' has no digits after the 'e'", word),
            "an exponent is e, a sign if need be, digits");
    } else {
      fault(at, word_end(at), fmt::format("'{}' is not a number", word),
            "a number is [+-]digits[.digits][e[+-]digits], with a digit in front of the point; inf and nan are none");
    }
  }
  return false;
}

template class RowParser<false>;
template class RowParser<true>;

const char* read_sequence(RowParser<true>& parser, const TextLayout& layout, const char* p, const char* end,
                          Share& share, std::vector<std::uint32_t>& samples) {
  samples.assign(layout.streams.size(), 0);
  const std::uint32_t rows = rows_of_sequence(parser, layout, p, end, samples.data());
  std::uint32_t longest = 0;
  for (std::size_t s = 0; s < samples.size(); ++s) {
    StreamBuffer& into = share[s];
    if (samples[s] > rows) into.shrink_columns(into.columns - (samples[s] - rows));
    longest = std::max(longest, std::min(samples[s], rows));
  }
  share.end_sequence(longest);
  return p;
}

}  // namespace tutti::reader
