// SPDX-License-Identifier: Apache-2.0
// function_help.h -- the functions of the network languages, for help=NAME. Names, arguments and defaults come from the
// library and the function table; the sentences are in function_sentences.cpp.
#pragma once

#include <string>
#include <string_view>
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

// The sentence about a function; "" if there is none.
std::string_view sentence_of(std::string_view function);
std::vector<std::string_view> functions_with_sentences();

}  // namespace tutti::brainscript
