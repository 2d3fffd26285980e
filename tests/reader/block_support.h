// SPDX-License-Identifier: Apache-2.0
// block_support.h -- a reader from the text of its block, or what is wrong with the text, and what is noted.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "config/load.h"
#include "tutti/reader.h"

namespace tutti::reader {

struct Outcome {
  std::unique_ptr<Reader> reader;
  std::string errors, notices;
};

inline Outcome make(const std::string& settings, const std::string& action = "train") {
  Problems problems;
  config::Notices notices;
  Outcome o;
  o.reader = make_reader(config::record_from_text("reader=[" + settings + "]", "run.cntk").block("reader"),
                         {.action = action, .problems = &problems, .notices = &notices});
  try {
    problems.throw_if_any();
  } catch (const ConfigError& e) {
    o.errors = e.what();
  }
  for (const std::string& line : notices.lines) o.notices += line + "\n";
  EXPECT_EQ(o.reader == nullptr, !o.errors.empty());
  return o;
}

}  // namespace tutti::reader
