// SPDX-License-Identifier: Apache-2.0
// records.h -- reads the records of nodes: attributes and values from what follows the name of a node in a file. The
// table in node_types.cpp says which class has which record.
#pragma once

#include <vector>

#include "cntk/byte_reader.h"
#include "cntk/node_types.h"
#include "tutti/graph.h"

namespace tutti::cntk {

using graph::Node;
using List = std::vector<double>;

inline double read_integer(ByteReader& r, const char* what) { return r.number<std::int32_t>(what); }
inline double read_size(ByteReader& r, const char* what) { return static_cast<double>(r.number<std::uint64_t>(what)); }

void read_parameter(ByteReader&, const FileFormat&, Node&);
void read_input(ByteReader&, const FileFormat&, Node&);
void read_sparse_input(ByteReader&, const FileFormat&, Node&);
void read_statistic(ByteReader&, const FileFormat&, Node&);
void read_times(ByteReader&, const FileFormat&, Node&);
void read_slice(ByteReader&, const FileFormat&, Node&);
void read_row_stack(ByteReader&, const FileFormat&, Node&);
void read_row_repeat(ByteReader&, const FileFormat&, Node&);
void read_reduce(ByteReader&, const FileFormat&, Node&);
void read_reshape(ByteReader&, const FileFormat&, Node&);
void read_legacy_reshape(ByteReader&, const FileFormat&, Node&);
void read_transpose(ByteReader&, const FileFormat&, Node&);
void read_delay(ByteReader&, const FileFormat&, Node&);
void read_where(ByteReader&, const FileFormat&, Node&);
void read_convolution(ByteReader&, const FileFormat&, Node&);
void read_pooling(ByteReader&, const FileFormat&, Node&);
void read_unpooling(ByteReader&, const FileFormat&, Node&);
void read_max_pooling(ByteReader&, const FileFormat&, Node&);
void read_average_pooling(ByteReader&, const FileFormat&, Node&);
void read_roi_pooling(ByteReader&, const FileFormat&, Node&);
void read_normalization(ByteReader&, const FileFormat&, Node&);
void read_generator(ByteReader&, const FileFormat&, Node&);
void read_trace(ByteReader&, const FileFormat&, Node&);

}  // namespace tutti::cntk
