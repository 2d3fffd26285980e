// SPDX-License-Identifier: Apache-2.0
// composite_options.h -- the block of readerType = "CompositeDataReader".
#pragma once

#include "reader/reader_row.h"

namespace tutti::reader {

Made read_composite(const config::Record& block, const ReaderContext& context);
void describe_composite(config::Fields& f);

}  // namespace tutti::reader
