// SPDX-License-Identifier: Apache-2.0
#include "train/rank_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "train/reshard.h"
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

template <class T>
std::span<std::byte> writable_bytes(T& v) {
  return std::as_writable_bytes(std::span<T, 1>(&v, 1));
}

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
class SendingArchive final : public Archive {
 public:
  explicit SendingArchive(Communicator& c) : comm_(c) {}
  bool loading() const override { return false; }
  bool has(std::string_view) const override { return true; }
  void operator()(std::string_view n, bool& v) override {
    std::uint8_t byte = v;
    put(n, EntryType::boolean, writable_bytes(byte));
  }
  void operator()(std::string_view n, std::int64_t& v) override { put(n, EntryType::integer, writable_bytes(v)); }
  void operator()(std::string_view n, double& v) override { put(n, EntryType::number, writable_bytes(v)); }
  void operator()(std::string_view n, std::string& v) override { put(n, EntryType::text, std::as_bytes(std::span(v))); }
  void operator()(std::string_view n, std::span<float> v) override { put(n, EntryType::floats, std::as_bytes(v)); }

 private:
  void put(std::string_view name, EntryType type, std::span<const std::byte> bytes) {
    send_head(comm_, 0, name, type, bytes.size());
    send(comm_, 0, bytes);
  }
  Communicator& comm_;
};

// The loading archive of a rank: looks entries up by name.
class ReceivedArchive final : public Archive {
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
  void operator()(std::string_view n, bool& v) override {
    std::uint8_t byte = 0;
    get(n, EntryType::boolean, writable_bytes(byte));
    v = byte != 0;
  }
  void operator()(std::string_view n, std::int64_t& v) override { get(n, EntryType::integer, writable_bytes(v)); }
  void operator()(std::string_view n, double& v) override { get(n, EntryType::number, writable_bytes(v)); }
  void operator()(std::string_view n, std::string& v) override {
    v.assign(find(n, EntryType::text).bytes.size(), '\0');
    get(n, EntryType::text, std::as_writable_bytes(std::span(v)));
  }
  void operator()(std::string_view n, std::span<float> v) override {
    get(n, EntryType::floats, std::as_writable_bytes(v));
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
  const Received& find(std::string_view name, EntryType type) const {
    const auto at = entries_.find(name);
    if (at == entries_.end()) fail(fmt::format("has no entry '{}'", name));
    if (at->second.type != type) fail(fmt::format("has an entry '{}' of another type", name));
    return at->second;
  }
  void get(std::string_view name, EntryType type, std::span<std::byte> to) {
    const Received& r = find(name, type);
    if (r.bytes.size() != to.size())
      fail(fmt::format("has an entry '{}' of {} bytes where {} are expected", name, r.bytes.size(), to.size()));
    std::copy(r.bytes.begin(), r.bytes.end(), to.begin());
    entries_.find(name)->second.used = true;
  }

  const int rank_;
  std::map<std::string, Received, std::less<>> entries_;
};

// Loads on rank 0 and broadcasts every value; all ranks request the same entries in the same order.
class BroadcastArchive final : public Archive {
 public:
  BroadcastArchive(Communicator& c, LoadingArchive* source) : comm_(c), source_(source) {}
  bool loading() const override { return true; }
  bool has(std::string_view name) const override {
    std::uint8_t there = source_ && source_->has(name);
    comm_.broadcast(0, writable_bytes(there));
    return there != 0;
  }
  void operator()(std::string_view n, bool& v) override { pass(n, v); }
  void operator()(std::string_view n, std::int64_t& v) override { pass(n, v); }
  void operator()(std::string_view n, double& v) override { pass(n, v); }
  void operator()(std::string_view n, std::string& v) override {
    on_rank_0(comm_, [&] { (*source_)(n, v); });
    broadcast_text(comm_, v);
  }
  void operator()(std::string_view n, std::span<float> v) override {
    on_rank_0(comm_, [&] { (*source_)(n, v); });
    if (!v.empty()) comm_.broadcast(0, std::as_writable_bytes(v));
  }

 private:
  template <class T>
  void pass(std::string_view name, T& v) {
    on_rank_0(comm_, [&] { (*source_)(name, v); });
    comm_.broadcast(0, writable_bytes(v));
  }
  Communicator& comm_;
  LoadingArchive* source_;
};

std::string rank_prefix(int rank) { return fmt::format("rank {}/", rank); }

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

void send_stored(Communicator& comm, int to, const ContainerReader& reader, const std::string& prefix) {
  std::vector<std::byte> buffer;
  for (const auto& [name, e] : reader.entries()) {
    if (!name.starts_with(prefix)) continue;
    send_head(comm, to, std::string_view(name).substr(prefix.size()), e.type, e.bytes);
    for (std::uint64_t at = 0; at < e.bytes; at += buffer.size()) {
      buffer.resize(std::min<std::uint64_t>(portion, e.bytes - at));
      reader.read(e, at, buffer);
      send(comm, to, buffer);
    }
  }
  send_head(comm, to, "", EntryType::text, 0);
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

void broadcast_text(Communicator& comm, std::string& text) {
  std::uint64_t size = text.size();
  comm.broadcast(0, writable_bytes(size));
  text.resize(size);
  if (size > 0) comm.broadcast(0, std::as_writable_bytes(std::span(text)));
}

void broadcast_values(ModelView& m, Communicator& comm) {
  for (ModelValue& v : m.values)
    if (!v.values.empty()) comm.broadcast(0, std::as_writable_bytes(v.values));
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

void spread_state(Communicator& comm, const ContainerReader* reader, const Visit& visit) {
  if (comm.rank() != 0) {
    ReceivedArchive a(comm.rank());
    a.receive_all(comm);
    visit(a);
    return a.finish();
  }
  for (int r = 1; r < comm.size(); ++r) send_stored(comm, r, *reader, rank_prefix(r));
  LoadingArchive a(*reader, rank_prefix(0));
  visit(a);
  a.finish();
}

void reshard_state(Communicator& comm, const ContainerReader* reader, int old_ranks, const Visit& visit) {
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
  BroadcastArchive a(comm, source.get());
  visit(a);
  on_rank_0(comm, [&] { source->finish(); });
}

}  // namespace tutti
