// SPDX-License-Identifier: Apache-2.0
// Two messages, because the receiver must know the number of rows first.
#include "collective/row_sparse_broadcast.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

namespace tutti {
namespace {

// Calls use(value of the gradients) for the values of the rows, in the order of a message.
template <class Float, class Use>
void each_value(const Slice& slice, const std::vector<std::uint32_t>& rows, Float* gradients, const Use& use) {
  const std::size_t size = slice.sparse_row_size();
  for (const std::uint32_t row : rows)
    for (std::size_t i = 0; i < size; ++i)
      use(gradients[slice.offset + (slice.sparse_by_row ? row + i * slice.rows : row * size + i)]);
}

}  // namespace

RowSparseBroadcast::RowSparseBroadcast(Communicator& group, Parameters& whole, std::size_t slice, int root, int tag)
    : comm_(group),
      whole_(whole),
      slice_(slice),
      rows_(whole.slices[slice].sparse_row_count()),
      row_size_(whole.slices[slice].sparse_row_size()),
      root_(root),
      message_(new std::byte[bytes_for(rows_)]) {
  const std::span<std::byte> head = std::as_writable_bytes(std::span(&count_, 1)),
                             body(message_.get(), bytes_for(rows_));
  for (int r = 0; r < comm_.size(); ++r) {
    if (r == root_ || (comm_.rank() != root_ && r != comm_.rank())) continue;
    const bool sends = comm_.rank() == root_;
    heads_.push_back(sends ? comm_.plan_send(r, tag, head) : comm_.plan_receive(root_, tag, head));
    bodies_.push_back(sends ? comm_.plan_send(r, tag + 1, body) : comm_.plan_receive(root_, tag + 1, body));
  }
}

std::size_t RowSparseBroadcast::bytes_for(std::size_t rows) const {
  return rows * (sizeof(std::uint32_t) + row_size_ * sizeof(float));
}

void RowSparseBroadcast::arm() {
  if (comm_.rank() == root_ || std::exchange(armed_, true)) return;
  here_ = false;
  heads_[0]->start();
}

void RowSparseBroadcast::send(const Parameters& from) {
  assert(comm_.rank() == root_);
  const auto& rows = from.sparse_rows[slice_];
  count_ = static_cast<std::int64_t>(rows.size());
  std::memcpy(message_.get(), rows.data(), rows.size() * sizeof(std::uint32_t));
  std::byte* to = message_.get() + rows.size() * sizeof(std::uint32_t);
  each_value(from.slices[slice_], rows, from.gradients.data(), [&](const float& value) {
    std::memcpy(to, &value, sizeof value);
    to += sizeof value;
  });
  const std::size_t bytes = bytes_for(rows.size());
  for (auto& t : heads_) t->start();
  for (auto& t : bodies_) t->start(bytes);
  bytes_ += static_cast<std::int64_t>((bytes + sizeof count_) * heads_.size());
  here_ = true;
}

void RowSparseBroadcast::receive_rows() { bodies_[0]->start(bytes_for(static_cast<std::size_t>(count_))); }

bool RowSparseBroadcast::try_complete() {
  if (here_) return true;
  if (comm_.rank() == root_) return false;
  if (armed_) {
    if (!heads_[0]->done()) return false;
    armed_ = false;
    receive_rows();
  }
  return here_ = bodies_[0]->done();
}

void RowSparseBroadcast::complete() {
  if (here_) return;
  assert(comm_.rank() != root_);
  if (std::exchange(armed_, false)) {
    heads_[0]->wait();
    receive_rows();
  }
  bodies_[0]->wait();
  here_ = true;
}

void RowSparseBroadcast::store() {
  assert(here_);
  here_ = false;
  const Slice& slice = whole_.slices[slice_];
  auto& listed = whole_.sparse_rows[slice_];
  // Perhaps of another minibatch, if sums are delayed.
  clear_sparse_rows(slice, listed, whole_.gradients);
  listed.resize(static_cast<std::size_t>(count_));
  std::memcpy(listed.data(), message_.get(), listed.size() * sizeof(std::uint32_t));
  const std::byte* from = message_.get() + listed.size() * sizeof(std::uint32_t);
  each_value(slice, listed, whole_.gradients.data(), [&](float& value) {
    std::memcpy(&value, from, sizeof value);
    from += sizeof value;
  });
}

void RowSparseBroadcast::flush() {
  if (comm_.rank() != root_) return;
  for (auto& t : heads_) t->wait();
  for (auto& t : bodies_) t->wait();
}

std::int64_t RowSparseBroadcast::bytes_and_reset() { return std::exchange(bytes_, 0); }

}  // namespace tutti
