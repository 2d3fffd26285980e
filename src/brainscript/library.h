// SPDX-License-Identifier: Apache-2.0
// library.h -- the standard library, written in the network language itself.
#pragma once

#include <string>
#include <string_view>

namespace tutti::brainscript {

std::string library_text();  // all parts

extern const std::string_view image_library;
extern const std::string_view recurrent_library;
extern const std::string_view seq2seq_library;
extern const std::string_view keras_library;
extern const std::string_view simple_library;
extern const std::string_view ndl_library;

}  // namespace tutti::brainscript
