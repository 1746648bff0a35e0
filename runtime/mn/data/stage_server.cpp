#include <mn/data/stage_server.hpp>

#include <algorithm>
#include <utility>

#include <mn/core/error.hpp>
#include <mn/core/log.hpp>

namespace mn::data {
namespace {

constexpr int kThreads = StageServer::kMaxGiven + 2;
constexpr auto kStopTime = std::chrono::milliseconds(100);  // a thread notices a stop within this time
constexpr std::size_t kSentBytes = 256 << 10;
constexpr auto kRequestTime = std::chrono::seconds(2);

template <class Value>
bool reply(const Fd& to, const Value& value) {
  return send_until(to, std::as_bytes(std::span(&value, 1)), Clock::now() + kRequestTime);
}

}  // namespace

StageSource StageDirectory::ask(std::uint64_t file, std::uint32_t node, Time now) {
  Entry& entry = files_[file];
  std::erase(entry.nodes, node);  // a node that asks has no copy
  if (!entry.nodes.empty()) return {StageSource::Kind::kNode, entry.nodes[entry.turn++ % entry.nodes.size()]};
  if (entry.copier != node && now < entry.until) return {StageSource::Kind::kWait};
  entry.copier = node;
  entry.until = now + kMaxCopyTime;
  return {StageSource::Kind::kStorage};
}

void StageDirectory::add(std::uint64_t file, std::uint32_t node) {
  Entry& entry = files_[file];
  if (std::ranges::find(entry.nodes, node) == entry.nodes.end()) entry.nodes.push_back(node);
}

void StageDirectory::remove(std::uint64_t file, std::uint32_t node) {
  Entry& entry = files_[file];
  std::erase(entry.nodes, node);
  if (entry.copier == node) entry.until = {};
}

StageServer::StageServer(const Fd& listener, const Key& key, ReadCopy read_copy)
    : listener_(listener), key_(key), read_copy_(std::move(read_copy)) {
  for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
}

StageServer::~StageServer() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

void StageServer::work(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const Fd connection = accept_until(listener_, Clock::now() + kStopTime);
    if (!connection) continue;
    try {
      answer(connection, stop);
    } catch (const std::exception& error) {
      log_warning(std::string("a copy was not given to another node: ") + error.what());
    }
  }
}

void StageServer::answer(const Fd& connection, const std::stop_token& stop) {
  StageRequest request;
  const auto bytes = std::as_writable_bytes(std::span(&request, 1));
  if (!receive_until(connection, bytes, Clock::now() + kRequestTime)) return;
  if (!is_same_code(to_hex(request.key), to_hex(key_))) return;
  if (request.kind == StageRequest::Kind::kGet) return give(request.file, connection, stop);
  std::unique_lock lock(mutex_);
  if (request.kind == StageRequest::Kind::kAsk) {
    const StageSource source = directory_.ask(request.file, request.node, Clock::now());
    lock.unlock();
    reply(connection, source);
    return;
  }
  if (request.kind == StageRequest::Kind::kAdd) directory_.add(request.file, request.node);
  if (request.kind == StageRequest::Kind::kRemove) directory_.remove(request.file, request.node);
  lock.unlock();
  reply(connection, StageAnswer::kYes);
}

void StageServer::give(std::uint64_t file, const Fd& connection, const std::stop_token& stop) {
  struct CopyCounter {
    std::atomic<int>& count;
    int before = count++;
    ~CopyCounter() { --count; }
  } const counter{given_};
  if (counter.before >= kMaxGiven) {
    reply(connection, StageAnswer::kBusy);
    return;
  }
  bool begun = false;
  const bool has_copy = read_copy_(file, [&](std::uint32_t checksum, std::span<const std::byte> piece) {
    if (!std::exchange(begun, true) && !reply(connection, StageAnswer::kYes)) return false;
    bool sent = send_until(connection, std::as_bytes(std::span(&checksum, 1)), Clock::now() + kStagePieceTime);
    // The receiver may be slow, and a stop must not wait for a whole piece.
    while (sent && !piece.empty() && !stop.stop_requested()) {
      const auto some = piece.first(std::min(kSentBytes, piece.size()));
      sent = send_until(connection, some, Clock::now() + kStagePieceTime);
      piece = piece.subspan(some.size());
    }
    return sent && piece.empty();
  });
  if (!has_copy) reply(connection, StageAnswer::kNo);
}

}  // namespace mn::data
