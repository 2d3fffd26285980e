// SPDX-License-Identifier: Apache-2.0
#include "train/rank_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "tutti/error.h"

namespace tutti {

namespace {

constexpr int tag = 32001;
constexpr std::size_t portion = 64 << 20;  // bytes in one message

// The header of each entry; a name length of 0 ends the stream.
struct EntryHeader {
  std::uint32_t type = 0, name = 0;
  std::uint64_t bytes = 0;
};

void send(Communicator& comm, int to, std::span<const std::byte> bytes) {
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(portion, bytes.size())))
    comm.send(to, tag, bytes.first(std::min(portion, bytes.size())))->wait();
}

void receive(Communicator& comm, int from, std::span<std::byte> bytes) {
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(portion, bytes.size())))
    comm.receive(from, tag, bytes.first(std::min(portion, bytes.size())))->wait();
}

void send_head(Communicator& comm, int to, std::string_view name, EntryType type, std::uint64_t bytes) {
  EntryHeader h{static_cast<std::uint32_t>(type), static_cast<std::uint32_t>(name.size()), bytes};
  send(comm, to, writable_bytes(h));
  send(comm, to, std::as_bytes(std::span(name)));
}

// Returns false at the end of the stream.
bool receive_head(Communicator& comm, int from, EntryHeader& h, std::string& name) {
  receive(comm, from, writable_bytes(h));
  name.assign(h.name, '\0');
  receive(comm, from, std::as_writable_bytes(std::span(name)));
  return h.name != 0;
}

// The saving archive of a rank: every entry is sent to rank 0 at once.
class SendingArchive final : public SavingByteArchive {
 public:
  explicit SendingArchive(Communicator& c) : comm_(c) {}
  void entry(std::string_view name, EntryType type, std::span<std::byte> bytes) override {
    send_head(comm_, 0, name, type, bytes.size());
    send(comm_, 0, bytes);
  }

 private:
  Communicator& comm_;
};

// The loading archive of a rank: looks entries up by name.
class ReceivedArchive final : public ByteArchive {
 public:
  explicit ReceivedArchive(int rank) : rank_(rank) {}
  void receive_all(Communicator& comm) {
    EntryHeader h;
    std::string name;
    while (receive_head(comm, 0, h, name)) {
      Received r{static_cast<EntryType>(h.type), std::vector<std::byte>(h.bytes)};
      receive(comm, 0, r.bytes);
      entries_.emplace(name, std::move(r));
    }
  }
  void add(std::string_view name, EntryType type, std::span<const std::byte> bytes) {
    entries_.emplace(name, Received{type, {bytes.begin(), bytes.end()}});
  }
  bool loading() const override { return true; }
  bool has(std::string_view n) const override { return entries_.contains(n); }
  std::size_t text_size(std::string_view name, const std::string&) override {
    return find(name, EntryType::text).bytes.size();
  }
  void entry(std::string_view name, EntryType type, std::span<std::byte> to) override {
    Received& r = find(name, type);
    if (r.bytes.size() != to.size())
      fail(fmt::format("has an entry '{}' of {} bytes where {} are expected", name, r.bytes.size(), to.size()));
    std::copy(r.bytes.begin(), r.bytes.end(), to.begin());
    r.used = true;
  }
  void finish() const {
    for (const auto& [name, r] : entries_)
      if (!r.used) fail(fmt::format("has an entry '{}' that this run does not use", name));
  }

 private:
  struct Received {
    EntryType type;
    std::vector<std::byte> bytes;
    bool used = false;
  };

  [[noreturn]] void fail(const std::string& how) const {
    throw Error(fmt::format("the checkpoint's state of rank {} {}", rank_, how));
  }
  Received& find(std::string_view name, EntryType type) {
    const auto at = entries_.find(name);
    if (at == entries_.end()) fail(fmt::format("has no entry '{}'", name));
    if (at->second.type != type) fail(fmt::format("has an entry '{}' of another type", name));
    return at->second;
  }

  const int rank_;
  std::map<std::string, Received, std::less<>> entries_;
};

// Loads on rank 0 and broadcasts every value; all ranks request the same entries in the same order.
class BroadcastArchive final : public ByteArchive {
 public:
  BroadcastArchive(Communicator& c, ByteArchive* source) : comm_(c), source_(source) {}
  bool loading() const override { return true; }
  bool has(std::string_view name) const override {
    std::uint8_t there = source_ && source_->has(name);
    comm_.broadcast(0, writable_bytes(there));
    return there != 0;
  }
  std::size_t text_size(std::string_view name, const std::string& now) override {
    std::uint64_t size = 0;
    on_rank_0(comm_, [&] { size = source_->text_size(name, now); });
    comm_.broadcast(0, writable_bytes(size));
    return size;
  }
  void entry(std::string_view name, EntryType type, std::span<std::byte> to) override {
    on_rank_0(comm_, [&] { source_->entry(name, type, to); });
    if (!to.empty()) comm_.broadcast(0, to);
  }

 private:
  Communicator& comm_;
  ByteArchive* source_;
};

void write_received(Communicator& comm, int from, ContainerWriter& writer, const std::string& prefix) {
  EntryHeader h;
  std::string name;
  std::vector<std::byte> buffer;
  while (receive_head(comm, from, h, name)) {
    const auto type = static_cast<EntryType>(h.type);
    std::vector<std::uint64_t> dims;
    if (type == EntryType::floats) dims = {h.bytes / sizeof(float)};
    writer.begin(prefix + name, type, std::move(dims), h.bytes);
    for (std::uint64_t left = h.bytes; left > 0; left -= buffer.size()) {
      buffer.resize(std::min<std::uint64_t>(portion, left));
      receive(comm, from, buffer);
      writer.write(buffer);
    }
  }
}

}  // namespace

void on_rank_0(Communicator& comm, const std::function<void()>& work) {
  std::exception_ptr failure;
  std::string text;
  if (comm.rank() == 0) {
    try {
      work();
    } catch (const std::exception& e) {
      failure = std::current_exception();
      text = e.what();
      if (text.empty()) text = "unknown error";
    }
  }
  if (comm.size() > 1) broadcast_text(comm, text);
  if (failure) std::rethrow_exception(failure);
  if (!text.empty()) throw Error(text);
}

void broadcast_text(Communicator& comm, std::string& text, int root) {
  std::uint64_t size = text.size();
  comm.broadcast(root, writable_bytes(size));
  text.resize(size);
  if (size > 0) comm.broadcast(root, std::as_writable_bytes(std::span(text)));
}

void gather_state(Communicator& comm, ContainerWriter* writer, const Visit& visit) {
  if (comm.rank() != 0) {
    SendingArchive a(comm);
    visit(a);
    return send_head(comm, 0, "", EntryType::text, 0);
  }
  SavingArchive a(*writer, rank_prefix(0));
  visit(a);
  for (int r = 1; r < comm.size(); ++r) write_received(comm, r, *writer, rank_prefix(r));
}

void spread_state(Communicator& comm, const ContainerReader* reader, int old_ranks, const Visit& visit) {
  ReceivedArchive a(comm.rank());
  if (comm.rank() == 0) {
    for (int r = 1; r < comm.size(); ++r) {
      reshard(*reader, old_ranks, comm.size(), r, [&](std::string_view name, EntryType type, auto bytes) {
        send_head(comm, r, name, type, bytes.size());
        send(comm, r, bytes);
      });
      send_head(comm, r, "", EntryType::text, 0);
    }
    reshard(*reader, old_ranks, comm.size(), 0,
            [&](std::string_view name, EntryType type, auto bytes) { a.add(name, type, bytes); });
  } else {
    a.receive_all(comm);
  }
  visit(a);
  a.finish();
}

void broadcast_state(Communicator& comm, const ContainerReader* reader, const std::string& prefix, const Visit& visit) {
  std::unique_ptr<LoadingArchive> source;
  if (comm.rank() == 0) source = std::make_unique<LoadingArchive>(*reader, prefix);
  broadcast_state(comm, source.get(), visit);
  on_rank_0(comm, [&] { source->finish(); });
}

void broadcast_state(Communicator& comm, ByteArchive* source, const Visit& visit) {
  BroadcastArchive a(comm, source);
  visit(a);
}

}  // namespace tutti
