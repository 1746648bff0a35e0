// The communicator's calls for strings and JSON documents. Only the sender knows their lengths (text_messages.hpp).
// Documents travel as CBOR (RFC 8949), because JSON text cannot express NaN and infinity.
//
// Cost for n ranks and objects of B bytes: gather_obj and scatter_obj take 2 (n - 1) messages at the root.
// allgather_obj takes an MPI_Allgather of 8 bytes and an MPI_Allgatherv of n B bytes.
#include <algorithm>
#include <cstdint>

#include <mn/comm/calls/call_check.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/comm/messages/text_messages.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>

namespace mn {
namespace {

using nlohmann::json;

ConstBufferView bytes_of(const std::string& object) { return {object.data(), object.size(), DType::kUInt8}; }

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

// All ranks add the documents of all ranks, so all compute an equal sum, or throw an equal ArgumentError.

__extension__ typedef __int128 WideInteger;  // wide enough for a sum of 64-bit integers over all ranks
using Documents = std::vector<const json*>;  // [r] the document of rank r

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
  send_text(mpi_comm(), object, dest, tag, debug() ? SendMode::kDebug : SendMode::kBuffered);
}

std::string Communicator::recv_obj(int source, int tag, int* sender) {
  calls_->require_open("recv_obj");
  if (source != kAnySource) check_peer("recv_obj", "source", source, rank(), size());
  if (tag != kAnyTag) check_tag("recv_obj", tag, kMaxTag);
  const CallScope call = calls_->message("recv_obj", {}, source == kAnySource ? -1 : source);
  return recv_text(mpi_comm(), source == kAnySource ? MPI_ANY_SOURCE : source, tag, sender);
}

std::string Communicator::bcast_obj(const std::string& object, int root) {
  const auto call = calls_->collective(
      "bcast_obj", rank() == root ? bytes_of(object) : ConstBufferView(),
      [&] { check_rank("bcast_obj", "root", root, size()); }, [&] { return from_root(root); });
  calls_->match("bcast_obj", {}, root);
  return bcast_text(internal_comm(), object, root);
}

std::vector<std::string> Communicator::gather_obj(const std::string& object, int root) {
  const auto call = calls_->collective(
      "gather_obj", bytes_of(object), [&] { check_rank("gather_obj", "root", root, size()); },
      [&] { return from_root(root); });
  calls_->match("gather_obj", {}, root);
  return gather_texts(internal_comm(), object, root);
}

std::vector<std::string> Communicator::allgather_obj(const std::string& object) {
  const auto call = calls_->collective("allgather_obj", bytes_of(object));
  calls_->match("allgather_obj", {});
  // A time-out cannot end allgather_texts(), but match() has already waited for all ranks.
  return allgather_texts(internal_comm(), object);
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
  if (rank() != root) return recv_text(internal_comm(), root, kInternalTag);
  for (int dest = 0; dest < size(); ++dest) {
    if (dest == root) continue;
    send_text(internal_comm(), objects[static_cast<std::size_t>(dest)], dest, kInternalTag, SendMode::kBuffered);
  }
  return objects[static_cast<std::size_t>(root)];
}

// After a time-out MPI may still read the packed document, so KeptForMpi owns it.

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
  const std::vector<json> documents = allgather_obj(object);
  Documents by_rank;
  for (const json& document : documents) by_rank.push_back(&document);
  return sum_of(by_rank);
}

}  // namespace mn
