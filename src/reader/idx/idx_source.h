// SPDX-License-Identifier: Apache-2.0
// idx_source.h -- samples from IDX files, one file per stream: two zero bytes, element type, number of axes, the axes
// as big-endian 32-bit numbers, then the elements, last axis fastest; plain or gzip, as the MNIST files are. The arrays
// stay in memory as stored and are converted when a minibatch is made.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reader/order_options.h"
#include "reader/sequence_source.h"

namespace tutti::reader {

enum class IdxType : std::uint8_t { u8 = 0x08, i8 = 0x09, i16 = 0x0B, i32 = 0x0C, f32 = 0x0D, f64 = 0x0E };

std::size_t size_of(IdxType);

struct IdxHeader {
  IdxType type = IdxType::u8;
  std::vector<std::uint32_t> axes;
  std::size_t items() const { return axes.front(); }
  std::size_t item_size() const;  // elements per item: the product of the other axes
};

struct IdxArray {
  IdxHeader header;
  std::vector<unsigned char> bytes;  // the elements in this machine's byte order

  // Elements [first, first + n) as float, times `scale`.
  void convert(std::size_t first, std::size_t n, float scale, float* to) const;
  // The first element that is not finite as float, times `scale`; the number of elements if there is none.
  std::size_t find_non_finite(float scale) const;
  // One element of an integer type.
  std::int64_t integer(std::size_t element) const;
};

// Both throw an Error that says what is wrong with the file.
IdxHeader read_idx_header(const std::string& path);
IdxArray read_idx(const std::string& path);

struct IdxStream {
  std::string file = {};
  std::int64_t dim = 0;  // as the user says; more than 1 for a file of single numbers makes them classes, one-hot
  bool sparse = false;   // of class streams
  double scale = 0;      // factor on plain numbers; 0 takes bytes to 0..1 and leaves other types as they are
  void describe(config::Fields& f);
};

// The block of readerType = "IDXReader".
struct IdxReaderOptions {
  std::vector<std::pair<std::string, IdxStream>> input;
  OrderOptions order;
  void describe(config::Fields& f);
};

class IdxSource final : public SequenceSource {
 public:
  explicit IdxSource(const IdxReaderOptions&);  // reads the headers
  const std::vector<StreamInfo>& streams() const override { return infos_; }
  const SequenceIndex& index() override;  // loads the files
  void read(std::span<const std::uint32_t> sequences, Share&) override;

 private:
  struct Item : IdxStream {
    std::string name;
    bool classes = false;
  };
  static void check_stream(Item&, const IdxHeader&);
  static void check_classes(const Item&, const IdxArray&);
  static void check_numbers(const Item&, const IdxArray&);  // all are finite

  std::vector<Item> streams_;
  std::vector<StreamInfo> infos_;
  std::vector<IdxArray> arrays_;
  SequenceIndex index_;
};

}  // namespace tutti::reader
