// SPDX-License-Identifier: Apache-2.0
#include "base/activity.h"

namespace tutti {

Activity& activity() {
  static Activity one;
  return one;
}

}  // namespace tutti
