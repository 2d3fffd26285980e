// SPDX-License-Identifier: Apache-2.0
// algorithms.h -- which of several algorithms a shape takes. Measured once for each kind of device and kept in a file,
// so that a run, its repetition and its ranks take the same one: their sums differ in the last bits.
#pragma once

#include <functional>
#include <map>
#include <string>

namespace tutti::cuda {

class Algorithms {
 public:
  struct Choice {
    int algorithm = 0, math = 0;
    std::string plan = {};  // in one word, where numbers do not say it
    bool lasts = true;      // off: better luck next time
  };
  // A file in the folder that TUTTI_CACHE names; without it in XDG_CACHE_HOME/tutti or ~/.cache/tutti. An empty name,
  // or a folder that cannot be written, keeps choices in memory.
  explicit Algorithms(const std::string& device);

  // Whether choices outlive the process: else its repetition may measure other times.
  bool lasts() const { return !path_.empty(); }
  // The shape in one word.
  Choice at(const std::string& shape, const std::function<Choice()>& measure);
  // What a shape is called in a size, of which it may have many: the first few have names of their own, those that come
  // later share one up to the next power of two. So a choice may have been made for another size.
  std::string name_of(const std::string& shape, std::size_t size) const;
  static std::string own_name(const std::string& shape, std::size_t size);
  // What at() gives from now on, unless another process was first.
  Choice keep(const std::string& shape, const Choice&);

 private:
  void read();

  std::string path_;
  std::map<std::string, Choice> known_;
};

}  // namespace tutti::cuda
