// SPDX-License-Identifier: Apache-2.0
// algorithms.h -- remembers which algorithm was fastest for a shape. Measured once per kind of device and kept in a
// file, so that a run, its repetition and its ranks use the same one: different algorithms differ in the last bits.
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
    bool lasts = true;      // false: measure again in the next process
  };
  // Uses a file in the folder that TUTTI_CACHE names; without it in XDG_CACHE_HOME/tutti or ~/.cache/tutti. With an
  // empty name, or if the folder is not writable, choices are kept in memory.
  explicit Algorithms(const std::string& device);

  // Whether choices outlive the process; otherwise its repetition may choose differently.
  bool lasts() const { return !path_.empty(); }
  // Returns the choice for a shape (one word); measures it if it is unknown.
  Choice at(const std::string& shape, const std::function<Choice()>& measure);
  // The name of a shape in one of many sizes. The first few sizes have their own names; later ones share the name of
  // the next power of two, so their choice may have been made for another size.
  std::string name_of(const std::string& shape, std::size_t size) const;
  static std::string own_name(const std::string& shape, std::size_t size);
  // Sets what at() returns from now on, unless another process was first.
  Choice keep(const std::string& shape, const Choice&);

 private:
  void read();

  std::string path_;
  std::map<std::string, Choice> known_;
};

}  // namespace tutti::cuda
