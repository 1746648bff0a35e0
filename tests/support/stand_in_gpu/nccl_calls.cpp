// NCCL's collectives, sends, receives and groups: what is checked at the call, and how it becomes an operation.
#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "tests/support/stand_in_gpu/calls.hpp"
#include "tests/support/stand_in_gpu/memory.hpp"
#include "tests/support/stand_in_gpu/nccl_comm.hpp"

using namespace mn::stand_in;

namespace {

/// Sends and receives of a group on one stream: one operation.
struct Post {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<Message> messages;
};

struct Group {
  int depth = 0;
  ncclResult_t error = ncclSuccess;  // the first of its calls
  std::vector<std::pair<ncclComm_t, std::function<ncclResult_t()>>> calls;
  std::vector<Post> posts;
};

Group& group() {
  static thread_local Group of_thread;
  return of_thread;
}

/// Which of the two buffers holds a part for each rank.
enum class Whole { kNone, kSend, kRecv };

struct Buffers {
  const void* send = nullptr;
  void* recv = nullptr;
  Whole whole = Whole::kNone;
};

/// Starts the calls of each communicator as one.
ncclResult_t start(std::vector<std::pair<ncclComm_t, std::function<ncclResult_t()>>> calls) {
  ncclResult_t result = ncclSuccess;
  while (!calls.empty()) {
    const ncclComm_t comm = calls.front().first;
    const auto others =
        std::stable_partition(calls.begin(), calls.end(), [&](auto& each) { return each.first == comm; });
    std::vector<std::function<ncclResult_t()>> own;
    for (auto each = calls.begin(); each != others; ++each) own.push_back(std::move(each->second));
    calls.erase(calls.begin(), others);
    const ncclResult_t code = comm->start([own = std::move(own)] {
      for (const auto& call : own) {
        if (const ncclResult_t failure = call(); failure != ncclSuccess) return failure;
      }
      return ncclSuccess;
    });
    if (result == ncclSuccess || result == ncclInProgress) result = code == ncclSuccess ? result : code;
  }
  return result;
}

ncclResult_t refuse_call(const Call& call, const std::string& why) {
  return refuse(ncclInvalidArgument, std::string(call.name) + ": " + why);
}

bool overlap(const std::byte* a, std::size_t a_bytes, const std::byte* b, std::size_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

/// `call`'s count, type, op and root are the caller's.
ncclResult_t call_collective(Call call, const Buffers& buffers, ncclComm_t comm, cudaStream_t stream) {
  if (nccl_fails("nccl" + std::string(call.name))) return ncclInternalError;
  const auto type = static_cast<ncclDataType_t>(call.type);
  if (comm == nullptr) return refuse_call(call, "no communicator");
  if (size_of(type) == 0) return refuse_call(call, "no such type");
  if (call.root < kNone || call.root >= comm->size()) return refuse_call(call, "no such root");
  if (call.op > ncclMin) return refuse_call(call, "no such operator");
  const std::string_view name = call.name;
  const std::size_t part = call.count * size_of(type);
  const std::size_t send_bytes = buffers.whole == Whole::kSend ? part * static_cast<std::size_t>(comm->size()) : part;
  const std::size_t recv_bytes = buffers.whole == Whole::kRecv ? part * static_cast<std::size_t>(comm->size()) : part;
  const bool sends = part > 0 && (name != "Broadcast" || comm->rank() == call.root);
  const bool receives = part > 0 && (name != "Reduce" || comm->rank() == call.root);
  std::byte* const from = sends ? memory().alias(buffers.send, send_bytes) : nullptr;
  std::byte* const to = receives ? memory().alias(buffers.recv, recv_bytes) : nullptr;
  if ((sends && from == nullptr) || (receives && to == nullptr)) return refuse_call(call, "no memory of the GPU");
  if (sends && receives && overlap(from, send_bytes, to, recv_bytes)) {
    const std::size_t own = part * static_cast<std::size_t>(comm->rank());
    const bool in_place =
        (buffers.whole == Whole::kSend ? from + own : from) == (buffers.whole == Whole::kRecv ? to + own : to);
    if (!in_place) return refuse_call(call, "the buffers overlap");
  }
  auto enqueue = [=] {
    if (!comm->connect(call)) return ncclInternalError;
    return comm->enqueue(stream, [=](std::uint64_t) { comm->collective(call, from, to); });
  };
  if (group().depth == 0) return start({{comm, std::move(enqueue)}});
  group().calls.emplace_back(comm, std::move(enqueue));
  return ncclSuccess;
}

ncclResult_t end_group() {
  if (group().depth == 0) return refuse(ncclInvalidUsage, "GroupEnd without a group");
  if (--group().depth > 0) return ncclSuccess;
  auto calls = std::exchange(group().calls, {});
  auto posts = std::exchange(group().posts, {});
  // As in NCCL: nothing of a group begins if one of its calls failed.
  if (const ncclResult_t error = std::exchange(group().error, ncclSuccess); error != ncclSuccess) return error;
  for (Post& post : posts) {
    const ncclComm_t comm = post.comm;
    calls.emplace_back(comm, [post = std::move(post)] {
      if (!post.comm->connect(post.messages)) return ncclInternalError;
      return post.comm->enqueue(post.stream,
                                [post](std::uint64_t number) { post.comm->exchange(number, post.messages); });
    });
  }
  return start(std::move(calls));
}

ncclResult_t call_message(const char* name, const void* data, Message message, ncclComm_t comm, cudaStream_t stream) {
  const Call call = [&] {
    Call named;
    std::strncpy(named.name, name, sizeof named.name - 1);
    return named;
  }();
  if (nccl_fails("nccl" + std::string(name))) return ncclInternalError;
  if (comm == nullptr) return refuse_call(call, "no communicator");
  if (size_of(message.type) == 0) return refuse_call(call, "no such type");
  if (message.peer < 0 || message.peer >= comm->size()) return refuse_call(call, "no such peer");
  const std::size_t bytes = message.count * size_of(message.type);
  if (bytes > 0) message.data = memory().alias(data, bytes);
  if (bytes > 0 && message.data == nullptr) return refuse_call(call, "no memory of the GPU");
  ++group().depth;
  auto& posts = group().posts;
  const auto same =
      std::ranges::find_if(posts, [&](const Post& each) { return each.comm == comm && each.stream == stream; });
  (same == posts.end() ? posts.emplace_back(Post{comm, stream, {}}) : *same).messages.push_back(message);
  return end_group();
}

/// What a call returns, which the end of its group returns too.
ncclResult_t in_group(ncclResult_t code) {
  if (group().depth > 0 && group().error == ncclSuccess) group().error = code;
  return code;
}

}  // namespace

extern "C" {

ncclResult_t ncclAllReduce(const void* send, void* recv, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return in_group(call_collective({0, "AllReduce", count, type, op}, {send, recv}, comm, stream));
}

ncclResult_t ncclReduce(const void* send, void* recv, std::size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return in_group(call_collective({0, "Reduce", count, type, op, root}, {send, recv}, comm, stream));
}

ncclResult_t ncclReduceScatter(const void* send, void* recv, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return in_group(call_collective({0, "ReduceScatter", count, type, op}, {send, recv, Whole::kSend}, comm, stream));
}

ncclResult_t ncclBroadcast(const void* send, void* recv, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return in_group(call_collective({0, "Broadcast", count, type, kNone, root}, {send, recv}, comm, stream));
}

ncclResult_t ncclAllGather(const void* send, void* recv, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return in_group(call_collective({0, "AllGather", count, type}, {send, recv, Whole::kRecv}, comm, stream));
}

ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return in_group(call_message("Send", data, {true, nullptr, count, type, peer}, comm, stream));
}

ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return in_group(call_message("Recv", data, {false, nullptr, count, type, peer}, comm, stream));
}

ncclResult_t ncclGroupStart() {
  if (nccl_fails("ncclGroupStart")) return ncclInternalError;
  ++group().depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  const bool fails = nccl_fails("ncclGroupEnd");
  const ncclResult_t code = end_group();  // in any case: a group left open would take the next calls
  return fails ? ncclInternalError : code;
}

}  // extern "C"
