// The communicator's calls for strings and JSON documents, whose lengths only the sender knows.
//
// Users of communicators call them: send_obj and recv_obj on two ranks, the others on all ranks at once.
//
// Invariants:
// 1. An object is two messages, its length and its bytes, between the same ranks with the same tag, sent one after the
//    other. MPI keeps their order, so a receiver that takes any tag takes the bytes with the tag of the length.
// 2. Bytes that may count more than INT_MAX travel as one element of a derived type (MpiCount).
// 3. allreduce_obj adds in rank order from what all ranks gathered: each rank computes the same sum, or the same error.
//
// Cost for n ranks and objects of B bytes: send_obj, 2 messages; bcast_obj, 2 MPI_Bcast; gather_obj and scatter_obj,
// 2 (n - 1) messages at the root; allgather_obj, gather_obj, MPI_Bcast of 8 and of n B bytes, and an MPI_Allgather
// of 8. Rank 0 is the bottleneck: they are for results and settings, not for samples.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include <mn/comm/calls/call_check.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/comm/messages/message_reducer.hpp>
#include <mn/comm/messages/waiting_send.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>

namespace mn {
namespace {

using nlohmann::json;

/// Calls `move(text)` with room for `length` bytes, of which MPI keeps no pointer once it returns.
template <class Move>
std::string received(std::uint64_t length, const Move& move) {
  const KeptForMpi text(std::string(length, '\0'));
  if (length > 0) move(*text);
  return std::move(*text);
}

/// The second message of an object.
void send_bytes(MPI_Comm comm, const std::string& text, int dest, int tag, std::size_t limit) {
  if (text.empty()) return;
  const MpiCount n(text.size(), DType::kUInt8, limit);
  call_mpi(MPI_Send, MPI_Isend, "sending an object", text.size(), text.data(), n.count(), n.type(), dest, tag, comm);
}

/// A message of two: the length, then the bytes; MPI keeps the order.
void send_text(MPI_Comm comm, const std::string& text, int dest, int tag, std::size_t limit) {
  const std::uint64_t length = text.size();
  mpi_check(MPI_Send(&length, 1, MPI_UINT64_T, dest, tag, comm), "sending an object's length");
  send_bytes(comm, text, dest, tag, limit);
}

/// `sender` gets the source, unless it is null.
std::string recv_text(MPI_Comm comm, int source, int tag, std::size_t limit, int* sender = nullptr) {
  const KeptForMpi<std::uint64_t> length(0);
  MPI_Status status;
  MPI_Request request = MPI_REQUEST_NULL;
  mpi_check(MPI_Irecv(&*length, 1, MPI_UINT64_T, source, tag, comm, &request), "receiving an object's length");
  mpi_wait(request, &status, "receiving an object's length");
  if (sender != nullptr) *sender = status.MPI_SOURCE;
  return received(*length, [&](std::string& text) {
    const MpiCount n(text.size(), DType::kUInt8, limit);
    mpi_check(MPI_Irecv(text.data(), n.count(), n.type(), status.MPI_SOURCE, status.MPI_TAG, comm, &request),
              "receiving an object", text.size());
    mpi_wait({&request, 1}, "receiving an object", text.size());
  });
}

/// root's text, on every rank.
std::string bcast_text(MPI_Comm comm, const std::string& own, bool is_root, int root, std::size_t limit) {
  const KeptForMpi<std::uint64_t> length(own.size());
  call_mpi(MPI_Bcast, MPI_Ibcast, "broadcasting an object's length", 0, &*length, 1, MPI_UINT64_T, root, comm);
  return received(*length, [&](std::string& text) {
    if (is_root) text = own;
    const MpiCount n(*length, DType::kUInt8, limit);
    call_mpi(MPI_Bcast, MPI_Ibcast, "broadcasting an object", *length, text.data(), n.count(), n.type(), root, comm);
  });
}

/// By rank on `root`; empty elsewhere.
std::vector<std::string> gather_texts(const PlacedRank& own, MPI_Comm comm, const std::string& text, int root,
                                      std::size_t limit) {
  if (own.rank() != root) {
    send_text(comm, text, root, kInternalTag, limit);
    return {};
  }
  std::vector<std::string> texts;
  for (int source = 0; source < own.size(); ++source) {
    texts.push_back(source == root ? text : recv_text(comm, source, kInternalTag, limit));
  }
  return texts;
}

/// For the record of a call.
ConstBufferView bytes_of(const std::string& object) { return {object.data(), object.size(), DType::kUInt8}; }

/// CBOR (RFC 8949): JSON's own text has no NaN and no infinity.
std::string packed(const json& document) {
  std::string bytes;
  json::to_cbor(document, bytes);
  return bytes;
}

json unpacked(const std::string& bytes) { return parse_cbor(bytes, "a JSON object that a rank sent"); }

std::vector<json> unpacked(const std::vector<std::string>& objects) {
  std::vector<json> documents;
  for (const auto& object : objects) documents.push_back(unpacked(object));
  return documents;
}

__extension__ typedef __int128 WideInteger;  // holds the sum of as many 64-bit integers as there are ranks
using Documents = std::vector<const json*>;  // by rank

[[noreturn]] void not_alike(const json& a, const json& b) {
  throw ArgumentError("allreduce_obj: ranks gave documents of different form: " + json_text(a) + " and " + json_text(b),
                      true);
}

WideInteger integer_of(const json& number) {
  return number.is_number_unsigned() ? WideInteger{number.get<std::uint64_t>()}
                                     : WideInteger{number.get<std::int64_t>()};
}

json integer_sum(const Documents& numbers) {
  WideInteger sum = 0;
  for (const json* number : numbers) sum += integer_of(*number);
  if (const auto narrow = static_cast<std::int64_t>(sum); narrow == sum) return narrow;
  if (const auto narrow = static_cast<std::uint64_t>(sum); narrow == sum) return narrow;
  throw ArgumentError(
      "allreduce_obj: a sum that begins with " + json_text(*numbers.front()) + " does not fit 64 bits: give floats",
      true);
}

json number_sum(const Documents& numbers) {
  if (std::ranges::all_of(numbers, [](const json* number) { return number->is_number_integer(); })) {
    return integer_sum(numbers);
  }
  auto sum = numbers.front()->get<double>();
  for (std::size_t rank = 1; rank < numbers.size(); ++rank) sum += numbers[rank]->get<double>();
  return sum;
}

bool are_alike(const json& a, const json& b) {
  if (a.is_number() && b.is_number()) return true;
  return a.type() == b.type() && a.size() == b.size() && (a.is_structured() || a == b);
}

/// Numbers are added; all else must be the same on all ranks.
json sum_of(const Documents& all) {
  const json& first = *all.front();
  for (const json* each : all) {
    if (!are_alike(first, *each)) not_alike(first, *each);
  }
  if (first.is_number()) return number_sum(all);
  json sum = first;
  const auto sum_at = [&all](const auto& key) {
    Documents parts;
    for (const json* each : all) parts.push_back(&each->at(key));
    return sum_of(parts);
  };
  if (first.is_array()) {
    for (std::size_t i = 0; i < first.size(); ++i) sum[i] = sum_at(i);
  } else if (first.is_object()) {
    for (const auto& [key, value] : first.items()) {
      for (const json* each : all) {
        if (!each->contains(key)) not_alike(first, *each);
      }
      sum[key] = sum_at(key);
    }
  }
  return sum;
}

}  // namespace

void Communicator::send_obj(const std::string& object, int dest, int tag) {
  calls_->require_open("send_obj");
  check_peer("send_obj", "dest", dest, rank(), size());
  check_tag("send_obj", tag, kMaxTag);
  const CallScope call = calls_->message("send_obj", bytes_of(object), dest);
  if (calls_->debug()) {
    const std::uint64_t length = object.size();
    // As send() waits for its receiver.
    const MpiCount n(sizeof length, DType::kUInt8, count_limit_);
    send_in_debug_mode({&length, sizeof length, DType::kUInt8}, n, dest, tag, mpi_comm(),
                       "send_obj to rank " + std::to_string(dest));
    return send_bytes(mpi_comm(), object, dest, tag, count_limit_);
  }
  send_text(mpi_comm(), object, dest, tag, count_limit_);
}

std::string Communicator::recv_obj(int source, int tag, int* sender) {
  calls_->require_open("recv_obj");
  if (source != kAnySource) check_peer("recv_obj", "source", source, rank(), size());
  if (tag != kAnyTag) check_tag("recv_obj", tag, kMaxTag);
  const CallScope call = calls_->message("recv_obj", {}, source == kAnySource ? -1 : source);
  return recv_text(mpi_comm(), source == kAnySource ? MPI_ANY_SOURCE : source, tag, count_limit_, sender);
}

std::string Communicator::bcast_obj(const std::string& object, int root) {
  const auto call = calls_->collective(
      "bcast_obj", rank() == root ? bytes_of(object) : ConstBufferView(),
      [&] { check_rank("bcast_obj", "root", root, size()); }, [&] { return from_root(root); });
  calls_->match("bcast_obj", {}, root);
  return bcast_text(internal_comm(), object, rank() == root, root, count_limit_);
}

std::vector<std::string> Communicator::gather_obj(const std::string& object, int root) {
  const auto call = calls_->collective(
      "gather_obj", bytes_of(object), [&] { check_rank("gather_obj", "root", root, size()); },
      [&] { return from_root(root); });
  calls_->match("gather_obj", {}, root);
  return gather_texts(*this, internal_comm(), object, root, count_limit_);
}

std::vector<std::string> Communicator::allgather_obj(const std::string& object) {
  const auto call = calls_->collective("allgather_obj", bytes_of(object), nothing, nothing);
  calls_->match("allgather_obj", {});
  std::string all;
  // By rank 0 and in one text: the lengths, which all need, follow in one message.
  for (const auto& text : gather_texts(*this, internal_comm(), object, 0, count_limit_)) all += text;
  all = bcast_text(internal_comm(), all, rank() == 0, 0, count_limit_);
  const KeptForMpi lengths(std::vector<std::uint64_t>(static_cast<std::size_t>(size()), object.size()));
  call_mpi(MPI_Allgather, MPI_Iallgather, "gathering objects' lengths", 0, MPI_IN_PLACE, 0, MPI_UINT64_T,
           lengths->data(), 1, MPI_UINT64_T, internal_comm());
  std::vector<std::string> objects;
  std::size_t begin = 0;
  for (const std::uint64_t each : *lengths) {
    objects.push_back(all.substr(begin, each));
    begin += each;
  }
  return objects;
}

std::string Communicator::scatter_obj(const std::vector<std::string>& objects, int root) {
  const auto checks = [&] {
    check_rank("scatter_obj", "root", root, size());
    if (rank() == root && objects.size() != static_cast<std::size_t>(size())) {
      throw ArgumentError("scatter_obj: the root has " + std::to_string(objects.size()) + " objects for " +
                          std::to_string(size()) + " ranks");
    }
  };
  const auto call = calls_->collective("scatter_obj", {}, checks, [&] { return from_root(root); });
  calls_->match("scatter_obj", {}, root);
  if (rank() != root) return recv_text(internal_comm(), root, kInternalTag, count_limit_);
  for (int dest = 0; dest < size(); ++dest) {
    if (dest != root)
      send_text(internal_comm(), objects[static_cast<std::size_t>(dest)], dest, kInternalTag, count_limit_);
  }
  return objects[static_cast<std::size_t>(root)];
}

// What a document became must outlive a call that gives up, as what the caller gives does.

void Communicator::send_obj(const json& object, int dest, int tag) {
  const KeptForMpi text(packed(object));
  send_obj(*text, dest, tag);
}

json Communicator::recv_json(int source, int tag, int* sender) { return unpacked(recv_obj(source, tag, sender)); }

json Communicator::bcast_obj(const json& object, int root) {
  return unpacked(bcast_obj(rank() == root ? packed(object) : std::string(), root));
}

std::vector<json> Communicator::gather_obj(const json& object, int root) {
  const KeptForMpi text(packed(object));
  return unpacked(gather_obj(*text, root));
}

std::vector<json> Communicator::allgather_obj(const json& object) {
  const KeptForMpi text(packed(object));
  return unpacked(allgather_obj(*text));
}

json Communicator::allreduce_obj(const json& object) {
  const auto documents = allgather_obj(object);
  Documents by_rank;
  for (const json& document : documents) by_rank.push_back(&document);
  return sum_of(by_rank);
}

}  // namespace mn
