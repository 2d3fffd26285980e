// SPDX-License-Identifier: Apache-2.0
#include "collective/row_sparse_all_reduce.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

namespace tutti {

RowSparseAllReduce::RowSparseAllReduce(Communicator& comm, Parameters& parameters, const Codec& codec,
                                       std::size_t slice, int tag, ExchangeStats& stats)
    : comm_(comm),
      parameters_(parameters),
      codec_(codec),
      slice_(slice),
      offset_(parameters.slices[slice].offset),
      rows_(parameters.slices[slice].sparse_row_count()),
      row_size_(parameters.slices[slice].sparse_row_size()),
      row_bytes_(codec.bytes(row_size_, 1)),
      me_(comm.rank()),
      ranks_(comm.size()),
      stats_(stats),
      peers_(static_cast<std::size_t>(ranks_)) {
  if (parameters.sparse_rows.size() < parameters.slices.size()) parameters.sparse_rows.resize(parameters.slices.size());
  parameters.sparse_rows[slice].reserve(rows_);
  set_.plan(rows_);
  union_.reserve(rows_);
  union_mine_.reserve(rows_);
  for (std::uint32_t block = 0; block * kBlock < rows_; ++block)
    peer(owner(block * kBlock)).section_rows += std::min<std::size_t>(kBlock, rows_ - block * kBlock);
  std::size_t at = 0;
  for (Peer& peer : peers_) {
    peer.section = at;
    at += peer.section_rows * row_bytes_;
    peer.list.reserve(rows_);
    peer.mine.reserve(own().section_rows);
  }
  own_ = std::make_unique_for_overwrite<std::byte[]>(at);
  sums_ = std::make_unique_for_overwrite<std::byte[]>(at);
  for (FloatBuffer* workspace : {&values_workspace_, &residual_workspace_, &sum_workspace_})
    *workspace = FloatBuffer(kBlock * row_size_);
  if (ranks_ > 1) plan_messages(tag);
}

std::size_t RowSparseAllReduce::head_words() const { return 2 + std::min(kFirstRows, rows_); }

std::size_t RowSparseAllReduce::rest_words(Form form, std::size_t count, std::size_t rows) {
  if (form == Form::bitmap) return (rows + 31) / 32;
  return form == Form::list && count > kFirstRows ? count - kFirstRows : 0;
}

void RowSparseAllReduce::plan_messages(int tag) {
  const std::size_t slot = own().section_rows * row_bytes_;
  others_ = std::make_unique_for_overwrite<std::byte[]>(slot * static_cast<std::size_t>(ranks_));
  for (Peer& peer : peers_) peer.head.resize(head_words()), peer.rest.resize((rows_ + 31) / 32);
  const auto section = [&](Bytes& bytes, const Peer& owner) {
    return std::span<std::byte>(bytes.get() + owner.section, owner.section_rows * row_bytes_);
  };
  Peer& mine = own();
  for (int r = 0; r < ranks_; ++r) {
    if (r == me_) continue;
    Peer& other = peer(r);
    other.send_head = comm_.plan_send(r, tag, std::as_bytes(std::span(mine.head)));
    other.send_rest = comm_.plan_send(r, tag, std::as_bytes(std::span(mine.rest)));
    other.send_values = comm_.plan_send(r, tag, section(own_, other));
    other.send_sums = comm_.plan_send(r, tag + 1, section(sums_, mine));
    other.head_transfer = comm_.plan_receive(r, tag, std::as_writable_bytes(std::span(other.head)));
    other.rest_transfer = comm_.plan_receive(r, tag, std::as_writable_bytes(std::span(other.rest)));
    std::byte* const from = others_.get() + static_cast<std::size_t>(r) * slot;
    other.values = comm_.plan_receive(r, tag, std::span<std::byte>(from, slot));
    other.sums = comm_.plan_receive(r, tag + 1, section(sums_, other));
  }
}

void RowSparseAllReduce::arm() {
  assert(stage_ == Stage::idle);
  flush();
  for (Peer& peer : peers_) {
    peer.rest_started = false;
    if (peer.head_transfer) peer.head_transfer->start();
  }
  stage_ = Stage::armed;
}

// A lossless codec with residuals: those that an earlier codec left must be delivered, wherever they are.
void RowSparseAllReduce::announce(const Residuals& residuals) {
  assert(stage_ == Stage::armed);
  Peer& mine = own();
  const auto& sparse_rows = parameters_.sparse_rows[slice_];
  set_.add(sparse_rows);
  if (!codec_.lossy() && residuals.local) {
    const auto left = [&](const float* base, std::uint32_t row) {
      const float* values = gather(base, row, 1, values_workspace_);
      return std::any_of(values, values + row_size_, [](float v) { return v != 0; });
    };
    for (std::uint32_t row = 0; row < rows_; ++row)
      if (left(residuals.local, row) || (owner(row) == me_ && left(residuals.owner, row))) set_.add(row);
  }
  set_.take(mine.list);
  if (ranks_ > 1) write_list();
}

void RowSparseAllReduce::write_list() {
  Peer& mine = own();
  const std::size_t count = mine.list.size();
  const Form form = count == rows_ ? Form::all : count > kFirstRows + rows_ / 32 ? Form::bitmap : Form::list;
  mine.head[0] = static_cast<std::uint32_t>(count);
  mine.head[1] = static_cast<std::uint32_t>(form);
  if (form == Form::list) {
    const auto first = mine.list.begin() + static_cast<std::ptrdiff_t>(std::min(count, kFirstRows));
    std::copy(mine.list.begin(), first, mine.head.begin() + 2);
    std::copy(first, mine.list.end(), mine.rest.begin());
  } else if (form == Form::bitmap) {
    std::fill(mine.rest.begin(), mine.rest.end(), 0u);
    for (const auto row : mine.list) mine.rest[row / 32] |= 1u << (row % 32);
  }
  const std::size_t rest = rest_words(form, count, rows_) * sizeof(std::uint32_t);
  each_other([&](Peer& to) {
    to.send_head->start();
    if (rest > 0) to.send_rest->start(rest);
    stats_.bytes_sent += static_cast<std::int64_t>(mine.head.size() * sizeof(std::uint32_t) + rest);
  });
}

void RowSparseAllReduce::read_list(Peer& peer) const {
  const std::size_t count = peer.head[0];
  peer.list.clear();
  switch (static_cast<Form>(peer.head[1])) {
    case Form::list: {
      const std::size_t first = std::min(count, kFirstRows);
      peer.list.insert(peer.list.end(), peer.head.begin() + 2,
                       peer.head.begin() + 2 + static_cast<std::ptrdiff_t>(first));
      peer.list.insert(peer.list.end(), peer.rest.begin(),
                       peer.rest.begin() + static_cast<std::ptrdiff_t>(count - first));
      return;
    }
    case Form::bitmap:
      for (std::uint32_t w = 0; w < peer.rest.size(); ++w)
        for (std::uint32_t bits = peer.rest[w]; bits != 0; bits &= bits - 1)
          peer.list.push_back(w * 32 + static_cast<std::uint32_t>(std::countr_zero(bits)));
      return;
    case Form::all:
      for (std::uint32_t row = 0; row < rows_; ++row) peer.list.push_back(row);
      return;
  }
}

// Consecutive rows of one block, starting at `at`.
std::uint32_t RowSparseAllReduce::run_at(const std::vector<std::uint32_t>& list, std::size_t at) const {
  std::size_t end = at + 1;
  while (end < list.size() && list[end] == list[end - 1] + 1 && list[end] % kBlock != 0) ++end;
  return static_cast<std::uint32_t>(end - at);
}

const float* RowSparseAllReduce::gather(const float* base, std::uint32_t row, std::uint32_t n,
                                        FloatBuffer& workspace) const {
  const Slice& s = parameters_.slices[slice_];
  if (!s.sparse_by_row) return base + offset_ + row * s.rows;
  for (std::uint32_t i = 0; i < n; ++i)
    for (std::size_t c = 0; c < s.columns; ++c)
      workspace.data()[i * row_size_ + c] = base[offset_ + c * s.rows + row + i];
  return workspace.data();
}

void RowSparseAllReduce::scatter(const float* values, std::uint32_t row, std::uint32_t n, float* base) const {
  const Slice& s = parameters_.slices[slice_];
  if (!s.sparse_by_row) return;
  for (std::uint32_t i = 0; i < n; ++i)
    for (std::size_t c = 0; c < s.columns; ++c) base[offset_ + c * s.rows + row + i] = values[i * row_size_ + c];
}

void RowSparseAllReduce::encode_run(std::uint32_t row, std::uint32_t n, const float* values, float* residuals,
                                    std::byte* out) {
  if (!residuals) return codec_.encode(row_size_, n, values, nullptr, out);
  // The residuals themselves, or a copy of them in our workspace.
  float* kept = const_cast<float*>(gather(residuals, row, n, residual_workspace_));
  codec_.encode(row_size_, n, values, kept, out);
  scatter(kept, row, n, residuals);
}

void RowSparseAllReduce::encode(const Residuals& residuals) {
  assert(stage_ == Stage::armed);
  const auto& list = own().list;
  for (Peer& peer : peers_) peer.encoded = 0;
  for (std::size_t i = 0; i < list.size();) {
    const std::uint32_t n = run_at(list, i);
    Peer& to = peer(owner(list[i]));
    encode_run(list[i], n, gather(parameters_.gradients.data(), list[i], n, values_workspace_), residuals.local,
               own_.get() + to.section + to.encoded * row_bytes_);
    to.encoded += n;
    i += n;
  }
}

void RowSparseAllReduce::launch() {
  assert(stage_ == Stage::armed);
  stage_ = Stage::launched;
  if (ranks_ == 1) {
    own_.swap(sums_);
    union_.assign(peers_[0].list.begin(), peers_[0].list.end());
    stage_ = Stage::summed;
    return;
  }
  each_other([&](Peer& to) {
    if (to.encoded > 0) to.send_values->start(to.encoded * row_bytes_);
    count_sent(to.encoded);
  });
}

bool RowSparseAllReduce::lists_are_here() {
  bool here = true;
  for (Peer& peer : peers_) {
    if (!peer.head_transfer) continue;
    if (!peer.head_transfer->done()) {
      here = false;
      continue;
    }
    const std::size_t rest = rest_words(static_cast<Form>(peer.head[1]), peer.head[0], rows_);
    if (rest > 0 && !std::exchange(peer.rest_started, true)) peer.rest_transfer->start(rest * sizeof(std::uint32_t));
    here = peer.rest_transfer->done() && here;
  }
  return here;
}

// All lists are known, so the size of every message follows.
void RowSparseAllReduce::merge() {
  const auto take_mine = [this](const std::vector<std::uint32_t>& list, std::vector<std::uint32_t>& mine) {
    mine.clear();
    for (const auto row : list)
      if (owner(row) == me_) mine.push_back(row);
  };
  for (Peer& peer : peers_) {
    if (peer.head_transfer) read_list(peer);
    take_mine(peer.list, peer.mine);
    peer.next = peer.count = 0;
    set_.add(peer.list);
    if (peer.values && !peer.mine.empty()) peer.values->start(peer.mine.size() * row_bytes_);
  }
  set_.take(union_);
  take_mine(union_, union_mine_);
  for (const auto row : union_) ++peer(owner(row)).count;
  for (Peer& peer : peers_)
    if (peer.sums && peer.count > 0) peer.sums->start(peer.count * row_bytes_);
  stage_ = Stage::merged;
}

bool RowSparseAllReduce::advance(const Residuals& residuals) {
  if (stage_ == Stage::armed || stage_ == Stage::launched) {
    // Before launch() the last sums may not be decoded yet; they need the union that they belong to.
    if (!lists_are_here() || stage_ == Stage::armed) return false;
    merge();
  }
  if (stage_ == Stage::merged) {
    bool here = true;
    for (Peer& peer : peers_)
      if (peer.values) here = peer.values->done() && here;
    if (!here) return false;
    sum(residuals);
  }
  return stage_ == Stage::summed;
}

// Whether the peer sends all of the rows [row, row + n); sets `partly` if it sends some of them.
bool RowSparseAllReduce::present(Peer& peer, std::uint32_t row, std::uint32_t n, bool& partly) const {
  if (peer.next == peer.mine.size() || peer.mine[peer.next] >= row + n) return false;
  const std::size_t last = peer.next + n - 1;
  const bool all = peer.mine[peer.next] == row && last < peer.mine.size() && peer.mine[last] == row + n - 1;
  partly = partly || !all;
  return all;
}

// Rank by rank, like the dense exchange; ranks without these rows would have added zeros there.
void RowSparseAllReduce::sum_run(std::uint32_t row, std::uint32_t n, const Residuals& residuals, std::byte* to) {
  const std::size_t slot = own().section_rows * row_bytes_;
  const std::byte* mine = own_.get() + own().section;
  bool first = true, missing = false, partly = false;
  for (std::size_t r = 0; r < peers_.size(); ++r) {
    Peer& peer = peers_[r];
    if (!present(peer, row, n, partly)) {
      missing = true;
      continue;
    }
    const std::byte* from = (static_cast<int>(r) == me_ ? mine : others_.get() + r * slot) + peer.next * row_bytes_;
    if (std::exchange(first, false))
      codec_.decode(row_size_, n, from, sum_workspace_.data());
    else
      codec_.decode_add(row_size_, n, from, sum_workspace_.data());
    peer.next += n;
  }
  assert(!first && !partly);
  if (missing)  // -0 becomes 0
    for (float& v : sum_workspace_.span().first(n * row_size_)) v += 0.0f;
  encode_run(row, n, sum_workspace_.data(), residuals.owner, to);
}

void RowSparseAllReduce::sum(const Residuals& residuals) {
  std::byte* to = sums_.get() + own().section;
  for (std::size_t i = 0; i < union_mine_.size();) {
    std::uint32_t n = run_at(union_mine_, i);
    bool partly = false;
    for (Peer& peer : peers_) present(peer, union_mine_[i], n, partly);
    if (partly) n = 1;
    sum_run(union_mine_[i], n, residuals, to);
    to += n * row_bytes_;
    i += n;
  }
  each_other([&](Peer& other) {
    if (!union_mine_.empty()) other.send_sums->start(union_mine_.size() * row_bytes_);
    count_sent(union_mine_.size());
  });
  stage_ = Stage::summed;
}

bool RowSparseAllReduce::finished() {
  assert(stage_ == Stage::summed);
  for (Peer& peer : peers_)
    if (peer.sums && !peer.sums->done()) return false;
  stage_ = Stage::idle;
  return true;
}

void RowSparseAllReduce::decode() {
  const Slice& s = parameters_.slices[slice_];
  auto& sparse_rows = parameters_.sparse_rows[slice_];
  float* gradients = parameters_.gradients.data();
  clear_sparse_rows(s, sparse_rows,
                    parameters_.gradients);  // one step behind, other rows were sparse_rows than those of the sums
  for (Peer& peer : peers_) peer.count = 0;
  for (std::size_t i = 0; i < union_.size();) {
    const std::uint32_t row = union_[i], n = run_at(union_, i);
    Peer& from = peer(owner(row));
    float* to = s.sparse_by_row ? values_workspace_.data() : gradients + offset_ + row * s.rows;
    codec_.decode(row_size_, n, sums_.get() + from.section + from.count * row_bytes_, to);
    scatter(to, row, n, gradients);
    from.count += n;
    i += n;
  }
  sparse_rows.assign(union_.begin(), union_.end());
}

void RowSparseAllReduce::flush() {
  each_other([](Peer& to) {
    for (auto* sent : {&to.send_head, &to.send_rest, &to.send_values, &to.send_sums}) (*sent)->wait();
  });
}

void RowSparseAllReduce::keep_own_rows(float* owner_residual) const {
  const bool rows = parameters_.slices[slice_].sparse_by_row;
  for (std::size_t row = 0; row < rows_; ++row) {
    if (owner(static_cast<std::uint32_t>(row)) == me_) continue;
    float* first = owner_residual + offset_ + row * (rows ? 1 : row_size_);
    for (std::size_t i = 0; i < row_size_; ++i) first[i * (rows ? rows_ : 1)] = 0;
  }
}

}  // namespace tutti
