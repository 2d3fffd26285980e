// SPDX-License-Identifier: Apache-2.0
#include "tutti/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tutti {

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape.dims, " x ")); }

}  // namespace tutti
