// SPDX-License-Identifier: Apache-2.0
// predict_output.h -- what `trainer predict` writes: CSV, JSON or an array of NumPy.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tutti/shape.h"

namespace tutti::actions {

struct PredictionStyle {
  std::string node;
  Shape shape;                       // of a sample of the node
  std::vector<std::string> classes;  // names of the elements; empty for none
  std::size_t top = 0;               // only the largest of them; 0: all values
  bool sequences = false;            // samples are steps of sequences
  bool files = false;                // samples are files
  bool names_class() const { return !classes.empty() || top > 0; }
};

// A sample: its number or file; where samples are steps of sequences, also its sequence and step.
struct PredictedSample {
  std::int64_t number = 0, sequence = 0, step = 0;
  std::string file;
  std::span<const float> values;
};

class PredictionWriter {
 public:
  virtual ~PredictionWriter() = default;
  virtual void write(const PredictedSample&) = 0;
  virtual void finish() = 0;
};

// The stream must live until finish().
std::unique_ptr<PredictionWriter> csv_writer(const PredictionStyle&, std::ostream&);
std::unique_ptr<PredictionWriter> json_writer(const PredictionStyle&, std::ostream&);
// Keeps all values until finish(), because the header of the file says how many there are.
std::unique_ptr<PredictionWriter> npy_writer(const PredictionStyle&, const std::string& path);

}  // namespace tutti::actions
