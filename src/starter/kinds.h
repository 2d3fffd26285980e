// SPDX-License-Identifier: Apache-2.0
// kinds.h -- looks at data of each kind. Every function throws Error with the place in the data and a fix.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti::starter {

struct Request {
  std::string train, test;  // files or folders; test may be empty
  std::string label;        // a table's column, by name or number, or a sequence's stream; empty = the last one
  std::string name;         // "my": the config is my.cntk; names of further files begin with it
};

struct Starter {
  std::string found;                      // what the data are, for the heading: "150 rows, 4 numbers each, 3 classes"
  std::string network;                    // the inside of BrainScriptNetworkBuilder
  std::string sgd;                        // lines of the SGD block
  std::string train_reader, test_reader;  // the inside of the blocks; test may be empty
  std::vector<std::pair<std::string, std::string>> files = {};  // others to write: path and content
};

Starter look_at_table(const Request&);
Starter look_at_idx(const Request&);     // MNIST and the like
Starter look_at_images(const Request&);  // a map, or a folder with one for each class
Starter look_at_text(const Request&);    // plain text, a sentence per line
Starter look_at_sequences(const Request&);

// `text` with every @NAME@ replaced.
std::string filled(std::string text, const std::map<std::string, std::string>& values);
// Epochs for about this many updates, at least 3 and at most 100.
std::int64_t epochs_for(std::int64_t updates, std::int64_t samples, std::int64_t minibatch);
// Throws Error: "path:line: error: what", "fix: ...". Line 0 is the whole file or folder.
[[noreturn]] void fail_at(const std::string& path, std::int64_t line, const std::string& what, const std::string& fix);
// Calls `use` with each line of the file, without a byte order mark, and its number from 1. Throws Error if it cannot
// be read.
void each_line(const std::string& path, const std::function<void(std::string_view, std::int64_t)>& use);
// The whole text as a number.
bool as_number(std::string_view text, double& value);

}  // namespace tutti::starter
