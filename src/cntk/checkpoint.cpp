// SPDX-License-Identifier: Apache-2.0
#include "cntk/checkpoint.h"

#include <fmt/format.h>

#include <limits>

#include "tutti/error.h"

namespace tutti::cntk {
namespace {

constexpr std::uint64_t newest_checkpoint = 2;

std::int64_t read_samples(ByteReader& r, const char* what) {
  const std::size_t at = r.offset();
  const auto n = r.number<std::uint64_t>(what);
  if (n > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    r.fail(at, fmt::format("{} is {}", what, n));
  return static_cast<std::int64_t>(n);
}

// Old files of single precision have floats there.
void read_rate(ByteReader& r, Checkpoint& c) {
  const bool floats = r.next_is("ELearnRate", 2 * sizeof(float));
  const auto number = [&](const char* what) {
    return floats ? static_cast<double>(r.number<float>(what)) : r.number<double>(what);
  };
  c.learning_rate = number("the learning rate");
  c.previous_criterion = number("the criterion");
}

void read_gradients(ByteReader& r, Checkpoint& c) {
  r.expect("BGradient");
  while (!r.take("EGradient")) c.gradients.push_back(r.matrix("a smoothed gradient"));
}

}  // namespace

bool is_checkpoint(const std::string& path) { return begins_with(path, "BVersion") || begins_with(path, "BCKP"); }

Checkpoint read_checkpoint(ByteReader r) {
  std::uint64_t version = 1;
  if (r.take("BVersion")) {
    version = r.number<std::uint64_t>("the version");
    r.expect("EVersion");
  }
  if (version > newest_checkpoint)
    throw Error(
        fmt::format("'{}' is a checkpoint of CNTK in version {}; versions up to {} are read\nfix: remove it to "
                    "go on with a fresh optimizer",
                    r.path(), version, newest_checkpoint));
  Checkpoint c;
  r.expect("BCKP");
  r.expect("BLearnRate");
  c.total_samples = read_samples(r, "the number of samples");
  read_rate(r, c);
  r.expect("ELearnRate");
  if (r.take("BMinibatchSize")) {
    c.minibatch_size = read_samples(r, "the minibatch size");
    r.expect("EMinibatchSize");
  }
  read_gradients(r, c);
  if (r.take("BCount")) {
    while (!r.take("ECount")) {
      c.counts.push_back(r.number<double>("a count"));
      if (c.counts.size() > c.gradients.size()) r.fail(r.offset(), "there are more counts than smoothed gradients");
    }
  }
  constexpr std::string_view end = "ECKP";
  c.block_momentum = r.next_is("BMACKP");
  if (c.block_momentum) r.skip_to_last(end);
  r.expect(end);
  if (r.left() > 0) r.fail(r.offset(), fmt::format("{} bytes follow the end of the checkpoint", r.left()));
  return c;
}

Checkpoint read_checkpoint(const std::string& path) { return read_checkpoint(ByteReader::open(path)); }

}  // namespace tutti::cntk
