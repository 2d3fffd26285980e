// SPDX-License-Identifier: Apache-2.0
// function_help.h -- the functions of the network languages, for help=NAME. Names, arguments, defaults and sentences
// come from the library and the table of natives. A sentence does not repeat what the other three say.
#pragma once

#include <string>
#include <vector>

namespace tutti::brainscript {

struct FunctionHelp {
  std::string name;       // "DenseLayer", "BS.Boolean.Not"
  std::string signature;  // "DenseLayer {outDim, bias=true, ...}"
  std::string section;    // "layers"; of the older language "NDL"
  std::string sentence;   // may be empty
  std::string same_as;    // of a second name
};

std::vector<FunctionHelp> library_functions();  // of BrainScript, in the order of the library
std::vector<FunctionHelp> ndl_functions();      // of the older network language

}  // namespace tutti::brainscript
