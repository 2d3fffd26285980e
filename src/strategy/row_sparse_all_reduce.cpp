// SPDX-License-Identifier: Apache-2.0
#include "strategy/row_sparse_all_reduce.h"

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
      lines_(parameters.slices[slice].lines()),
      line_size_(parameters.slices[slice].line_size()),
      line_bytes_(codec.bytes(line_size_, 1)),
      me_(comm.rank()),
      ranks_(comm.size()),
      stats_(stats),
      peers_(static_cast<std::size_t>(ranks_)),
      encoded_(static_cast<std::size_t>(ranks_)),
      count_(static_cast<std::size_t>(ranks_)) {
  if (parameters.touched.size() < parameters.slices.size()) parameters.touched.resize(parameters.slices.size());
  parameters.touched[slice].reserve(lines_);
  set_.plan(lines_);
  union_.reserve(lines_);
  union_mine_.reserve(lines_);
  for (std::uint32_t block = 0; block * kBlock < lines_; ++block)
    peers_[static_cast<std::size_t>(owner(block * kBlock))].section_lines +=
        std::min<std::size_t>(kBlock, lines_ - block * kBlock);
  std::size_t at = 0;
  for (Peer& peer : peers_) {
    peer.section = at;
    at += peer.section_lines * line_bytes_;
    peer.list.reserve(lines_);
    peer.mine.reserve(peers_[static_cast<std::size_t>(me_)].section_lines);
  }
  own_ = std::make_unique_for_overwrite<std::byte[]>(at);
  sums_ = std::make_unique_for_overwrite<std::byte[]>(at);
  for (FloatBuffer* workspace : {&values_workspace_, &residual_workspace_, &sum_workspace_})
    *workspace = FloatBuffer(kBlock * line_size_);
  if (ranks_ > 1) plan_messages(tag);
}

std::size_t RowSparseAllReduce::head_words() const { return 2 + std::min(kFirstLines, lines_); }

std::size_t RowSparseAllReduce::rest_words(Form form, std::size_t count, std::size_t lines) {
  if (form == Form::marks) return (lines + 31) / 32;
  return form == Form::lines && count > kFirstLines ? count - kFirstLines : 0;
}

void RowSparseAllReduce::plan_messages(int tag) {
  const auto at = [](int rank) { return static_cast<std::size_t>(rank); };
  const std::size_t slot = peers_[at(me_)].section_lines * line_bytes_;
  others_ = std::make_unique_for_overwrite<std::byte[]>(slot * at(ranks_));
  for (Peer& peer : peers_) peer.head.resize(head_words()), peer.rest.resize((lines_ + 31) / 32);
  for (auto* sends : {&send_heads_, &send_rests_, &send_values_, &send_sums_}) sends->resize(at(ranks_));
  const auto section = [&](Bytes& bytes, int owner) {
    return std::span<std::byte>(bytes.get() + peers_[at(owner)].section, peers_[at(owner)].section_lines * line_bytes_);
  };
  Peer& mine = peers_[at(me_)];
  for (int r = 0; r < ranks_; ++r) {
    if (r == me_) continue;
    Peer& peer = peers_[at(r)];
    send_heads_[at(r)] = comm_.plan_send(r, tag, std::as_bytes(std::span(mine.head)));
    send_rests_[at(r)] = comm_.plan_send(r, tag, std::as_bytes(std::span(mine.rest)));
    send_values_[at(r)] = comm_.plan_send(r, tag, section(own_, r));
    send_sums_[at(r)] = comm_.plan_send(r, tag + 1, section(sums_, me_));
    peer.head_transfer = comm_.plan_receive(r, tag, std::as_writable_bytes(std::span(peer.head)));
    peer.rest_transfer = comm_.plan_receive(r, tag, std::as_writable_bytes(std::span(peer.rest)));
    peer.values = comm_.plan_receive(r, tag, std::span<std::byte>(others_.get() + at(r) * slot, slot));
    peer.sums = comm_.plan_receive(r, tag + 1, section(sums_, r));
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

// A codec that loses nothing, but has residuals: what another one left behind is to be delivered, wherever it stands.
void RowSparseAllReduce::announce(const Residuals& residuals) {
  assert(stage_ == Stage::armed);
  Peer& mine = peers_[static_cast<std::size_t>(me_)];
  const auto& touched = parameters_.touched[slice_];
  set_.add(touched);
  if (!codec_.lossy() && residuals.local) {
    const auto left = [&](const float* base, std::uint32_t line) {
      const float* values = gather(base, line, 1, values_workspace_);
      return std::any_of(values, values + line_size_, [](float v) { return v != 0; });
    };
    for (std::uint32_t line = 0; line < lines_; ++line)
      if (left(residuals.local, line) || (owner(line) == me_ && left(residuals.owner, line))) set_.add(line);
  }
  set_.take(mine.list);
  if (ranks_ > 1) write_list();
}

void RowSparseAllReduce::write_list() {
  Peer& mine = peers_[static_cast<std::size_t>(me_)];
  const std::size_t count = mine.list.size();
  const Form form = count == lines_ ? Form::all : count > kFirstLines + lines_ / 32 ? Form::marks : Form::lines;
  mine.head[0] = static_cast<std::uint32_t>(count);
  mine.head[1] = static_cast<std::uint32_t>(form);
  if (form == Form::lines) {
    const auto first = mine.list.begin() + static_cast<std::ptrdiff_t>(std::min(count, kFirstLines));
    std::copy(mine.list.begin(), first, mine.head.begin() + 2);
    std::copy(first, mine.list.end(), mine.rest.begin());
  } else if (form == Form::marks) {
    std::fill(mine.rest.begin(), mine.rest.end(), 0u);
    for (const auto line : mine.list) mine.rest[line / 32] |= 1u << (line % 32);
  }
  const std::size_t rest = rest_words(form, count, lines_) * sizeof(std::uint32_t);
  for (int step = 1; step < ranks_; ++step) {
    const auto to = static_cast<std::size_t>((me_ + step) % ranks_);
    send_heads_[to]->start();
    if (rest > 0) send_rests_[to]->start(rest);
    stats_.bytes_sent += static_cast<std::int64_t>(mine.head.size() * sizeof(std::uint32_t) + rest);
  }
}

void RowSparseAllReduce::read_list(Peer& peer) const {
  const std::size_t count = peer.head[0];
  peer.list.clear();
  switch (static_cast<Form>(peer.head[1])) {
    case Form::lines: {
      const std::size_t first = std::min(count, kFirstLines);
      peer.list.insert(peer.list.end(), peer.head.begin() + 2,
                       peer.head.begin() + 2 + static_cast<std::ptrdiff_t>(first));
      peer.list.insert(peer.list.end(), peer.rest.begin(),
                       peer.rest.begin() + static_cast<std::ptrdiff_t>(count - first));
      return;
    }
    case Form::marks:
      for (std::uint32_t w = 0; w < peer.rest.size(); ++w)
        for (std::uint32_t bits = peer.rest[w]; bits != 0; bits &= bits - 1)
          peer.list.push_back(w * 32 + static_cast<std::uint32_t>(std::countr_zero(bits)));
      return;
    case Form::all:
      for (std::uint32_t line = 0; line < lines_; ++line) peer.list.push_back(line);
      return;
  }
}

// The lines from `at` on that follow each other in one block.
std::uint32_t RowSparseAllReduce::run_at(const std::vector<std::uint32_t>& list, std::size_t at) const {
  std::size_t end = at + 1;
  while (end < list.size() && list[end] == list[end - 1] + 1 && list[end] % kBlock != 0) ++end;
  return static_cast<std::uint32_t>(end - at);
}

const float* RowSparseAllReduce::gather(const float* base, std::uint32_t line, std::uint32_t n,
                                        FloatBuffer& workspace) const {
  const Slice& s = parameters_.slices[slice_];
  if (!s.lines_are_rows) return base + offset_ + line * s.rows;
  for (std::uint32_t i = 0; i < n; ++i)
    for (std::size_t c = 0; c < s.columns; ++c)
      workspace.data()[i * line_size_ + c] = base[offset_ + c * s.rows + line + i];
  return workspace.data();
}

void RowSparseAllReduce::scatter(const float* values, std::uint32_t line, std::uint32_t n, float* base) const {
  const Slice& s = parameters_.slices[slice_];
  if (!s.lines_are_rows) return;
  for (std::uint32_t i = 0; i < n; ++i)
    for (std::size_t c = 0; c < s.columns; ++c) base[offset_ + c * s.rows + line + i] = values[i * line_size_ + c];
}

void RowSparseAllReduce::encode_run(std::uint32_t line, std::uint32_t n, const float* values, float* residuals,
                                    std::byte* out) {
  if (!residuals) return codec_.encode(line_size_, n, values, nullptr, out);
  // Either the residuals themselves or a copy of them in our own workspace.
  float* kept = const_cast<float*>(gather(residuals, line, n, residual_workspace_));
  codec_.encode(line_size_, n, values, kept, out);
  scatter(kept, line, n, residuals);
}

void RowSparseAllReduce::encode(const Residuals& residuals) {
  assert(stage_ == Stage::armed);
  const auto& list = peers_[static_cast<std::size_t>(me_)].list;
  std::fill(encoded_.begin(), encoded_.end(), 0);
  for (std::size_t i = 0; i < list.size();) {
    const std::uint32_t n = run_at(list, i);
    const auto to = static_cast<std::size_t>(owner(list[i]));
    encode_run(list[i], n, gather(parameters_.gradients.data(), list[i], n, values_workspace_), residuals.local,
               own_.get() + peers_[to].section + encoded_[to] * line_bytes_);
    encoded_[to] += n;
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
  for (int step = 1; step < ranks_; ++step) {
    const auto to = static_cast<std::size_t>((me_ + step) % ranks_);
    if (encoded_[to] == 0) continue;
    send_values_[to]->start(encoded_[to] * line_bytes_);
    stats_.bytes_sent += static_cast<std::int64_t>(encoded_[to] * line_bytes_);
    stats_.values_sent += static_cast<std::int64_t>(encoded_[to] * line_size_);
  }
}

bool RowSparseAllReduce::lists_are_here() {
  bool here = true;
  for (Peer& peer : peers_) {
    if (!peer.head_transfer) continue;
    if (!peer.head_transfer->done()) {
      here = false;
      continue;
    }
    const std::size_t rest = rest_words(static_cast<Form>(peer.head[1]), peer.head[0], lines_);
    if (rest > 0 && !std::exchange(peer.rest_started, true)) peer.rest_transfer->start(rest * sizeof(std::uint32_t));
    here = peer.rest_transfer->done() && here;
  }
  return here;
}

// All lists are known: who sends how much to whom follows.
void RowSparseAllReduce::merge() {
  const auto take_mine = [this](const std::vector<std::uint32_t>& list, std::vector<std::uint32_t>& mine) {
    mine.clear();
    for (const auto line : list)
      if (owner(line) == me_) mine.push_back(line);
  };
  for (std::size_t r = 0; r < peers_.size(); ++r) {
    Peer& peer = peers_[r];
    if (peer.head_transfer) read_list(peer);
    take_mine(peer.list, peer.mine);
    peer.next = 0;
    set_.add(peer.list);
    if (peer.values && !peer.mine.empty()) peer.values->start(peer.mine.size() * line_bytes_);
  }
  set_.take(union_);
  take_mine(union_, union_mine_);
  std::fill(count_.begin(), count_.end(), 0);
  for (const auto line : union_) ++count_[static_cast<std::size_t>(owner(line))];
  for (std::size_t r = 0; r < peers_.size(); ++r)
    if (peers_[r].sums && count_[r] > 0) peers_[r].sums->start(count_[r] * line_bytes_);
  stage_ = Stage::merged;
}

bool RowSparseAllReduce::advance(const Residuals& residuals) {
  if (stage_ == Stage::armed || stage_ == Stage::launched) {
    // Before launch() the last sums may still have to be decoded, with the union they belong to.
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

// Whether the peer sends all of the lines [line, line + n); `partly` is set when it sends some of them.
bool RowSparseAllReduce::present(Peer& peer, std::uint32_t line, std::uint32_t n, bool& partly) const {
  if (peer.next == peer.mine.size() || peer.mine[peer.next] >= line + n) return false;
  const std::size_t last = peer.next + n - 1;
  const bool all = peer.mine[peer.next] == line && last < peer.mine.size() && peer.mine[last] == line + n - 1;
  partly = partly || !all;
  return all;
}

// Like the dense exchange, rank by rank; ranks without these lines would have added zeros there.
void RowSparseAllReduce::sum_run(std::uint32_t line, std::uint32_t n, const Residuals& residuals, std::byte* to) {
  const std::size_t slot = peers_[static_cast<std::size_t>(me_)].section_lines * line_bytes_;
  const std::byte* mine = own_.get() + peers_[static_cast<std::size_t>(me_)].section;
  bool first = true, missing = false, partly = false;
  for (std::size_t r = 0; r < peers_.size(); ++r) {
    Peer& peer = peers_[r];
    if (!present(peer, line, n, partly)) {
      missing = true;
      continue;
    }
    const std::byte* from = (static_cast<int>(r) == me_ ? mine : others_.get() + r * slot) + peer.next * line_bytes_;
    if (std::exchange(first, false))
      codec_.decode(line_size_, n, from, sum_workspace_.data());
    else
      codec_.decode_add(line_size_, n, from, sum_workspace_.data());
    peer.next += n;
  }
  assert(!first && !partly);
  if (missing)  // -0 becomes 0
    for (float& v : sum_workspace_.span().first(n * line_size_)) v += 0.0f;
  encode_run(line, n, sum_workspace_.data(), residuals.owner, to);
}

void RowSparseAllReduce::sum(const Residuals& residuals) {
  std::byte* to = sums_.get() + peers_[static_cast<std::size_t>(me_)].section;
  for (std::size_t i = 0; i < union_mine_.size();) {
    std::uint32_t n = run_at(union_mine_, i);
    bool partly = false;
    for (Peer& peer : peers_) present(peer, union_mine_[i], n, partly);
    if (partly) n = 1;
    sum_run(union_mine_[i], n, residuals, to);
    to += n * line_bytes_;
    i += n;
  }
  const std::size_t bytes = union_mine_.size() * line_bytes_;
  for (int step = 1; step < ranks_ && bytes > 0; ++step) {
    send_sums_[static_cast<std::size_t>((me_ + step) % ranks_)]->start(bytes);
    stats_.bytes_sent += static_cast<std::int64_t>(bytes);
    stats_.values_sent += static_cast<std::int64_t>(union_mine_.size() * line_size_);
  }
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
  auto& touched = parameters_.touched[slice_];
  float* gradients = parameters_.gradients.data();
  clear_lines(s, touched, parameters_.gradients);  // one step behind, other lines were touched than those of the sums
  std::fill(count_.begin(), count_.end(), 0);
  for (std::size_t i = 0; i < union_.size();) {
    const std::uint32_t line = union_[i], n = run_at(union_, i);
    const auto from = static_cast<std::size_t>(owner(line));
    float* to = s.lines_are_rows ? values_workspace_.data() : gradients + offset_ + line * s.rows;
    codec_.decode(line_size_, n, sums_.get() + peers_[from].section + count_[from] * line_bytes_, to);
    scatter(to, line, n, gradients);
    count_[from] += n;
    i += n;
  }
  touched.assign(union_.begin(), union_.end());
}

void RowSparseAllReduce::flush() {
  for (auto* sends : {&send_heads_, &send_rests_, &send_values_, &send_sums_})
    for (auto& t : *sends)
      if (t) t->wait();
}

void RowSparseAllReduce::keep_own_lines(float* owner_residual) const {
  const bool rows = parameters_.slices[slice_].lines_are_rows;
  for (std::size_t line = 0; line < lines_; ++line) {
    if (owner(static_cast<std::uint32_t>(line)) == me_) continue;
    float* first = owner_residual + offset_ + line * (rows ? 1 : line_size_);
    for (std::size_t i = 0; i < line_size_; ++i) first[i * (rows ? lines_ : 1)] = 0;
  }
}

}  // namespace tutti
