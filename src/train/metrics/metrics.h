// SPDX-License-Identifier: Apache-2.0
// metrics.h -- writes records to the files of the block `metrics`, at log lines. Only rank 0 has these files.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "train/metrics/options.h"
#include "train/metrics/record.h"

namespace tutti {

// A kind of file.
class MetricsFile {
 public:
  virtual ~MetricsFile() = default;
  // Opens the file at this position in the run, to append. Records after the position are removed: the run resumes
  // before them, or goes back. -1 removes all. Throws Error.
  virtual void resume_at(std::int64_t samples) = 0;
  virtual void write(const MetricsRecord&) = 0;  // and flushes. Throws Error
};
std::unique_ptr<MetricsFile> make_json_lines(const std::string& path);
// The names of the event files tell those of this model from others in the folder.
std::unique_ptr<MetricsFile> make_tensor_board(const std::string& folder, const std::string& model_path);

class Metrics {
 public:
  Metrics(const MetricsOptions&, const std::string& model_path);
  // Throws Error when a file cannot be written.
  void resume_at(std::int64_t samples);
  // Nothing before the first resume_at(). A file that cannot be written any more is given up, with a warning: training
  // does not end for it.
  void write(const MetricsRecord&);

 private:
  std::vector<std::unique_ptr<MetricsFile>> files_;
  bool open_ = false;
};

// The text of a JSON string, without quotes.
std::string json_text(const std::string&);
// One line of JSON without its end.
std::string to_json(const MetricsRecord&, double unix_time);

}  // namespace tutti
