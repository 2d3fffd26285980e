// SPDX-License-Identifier: Apache-2.0
// synthetic_options.h -- the block of readerType = "SyntheticReader".
#pragma once

#include <memory>

#include "reader/order_options.h"
#include "reader/synthetic/synthetic_source.h"

namespace tutti::reader {

struct SyntheticStreamOptions {
  std::int64_t dim = 0;
  config::Schedule<std::int64_t> shape;
  std::int64_t label_dim = 0;
  bool sparse = false;
  bool per_sequence = false;
  void describe(config::Fields& f);
  std::size_t size() const;
};

struct SyntheticReaderOptions {
  enum class Kind { digits, random };
  Kind kind = Kind::digits;
  std::int64_t samples = 60000;
  std::int64_t first_sample = 0;
  std::int64_t seed = 1;
  config::Schedule<std::int64_t> sequence_length;
  double noise = 0.1;
  double distortion = 1;
  std::vector<std::pair<std::string, SyntheticStreamOptions>> input;
  OrderOptions order;
  TruncationOptions truncation;
  void describe(config::Fields& f);
  std::unique_ptr<SequenceSource> source() const;

 private:
  void check_sequences(config::Fields& f) const;
};

}  // namespace tutti::reader
