/// The messages (encoded as CBOR) between ranks, leaders of nodes and the root in the rounds of a start.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <mn/core/fields.hpp>
#include <mn/core/json.hpp>

#include "bind/affinity.hpp"
#include "facts/facts.hpp"
#include "facts/json_fields.hpp"
#include "place/placement.hpp"
#include "rounds/verdict.hpp"

namespace mn::launcher {

struct Failure {
  int rank = 0;
  std::string host;
  int exit_code = 1;
  std::string text;
  MN_FIELDS(rank, host, exit_code, text);
  MN_NEEDED_FIELDS(rank, exit_code);
};

/// The missing ranks of one node; -1 for a rank whose number is not known.
struct AbsentRanks {
  std::vector<int> late;   ///< did not come in time
  std::vector<int> ended;  ///< came, and ended
  MN_FIELDS(late, ended);
};

/// The root's answer in rounds 2 and 3.
struct Decision {
  Verdict verdict;
  int speaker = 0;  ///< the rank that prints the verdict
  MN_FIELDS(verdict, speaker);
  MN_NEEDED_FIELDS(verdict, speaker);
};

// Round 1: which ranks have arrived.

struct Arrival {
  int rank = kNobody;
  int intra_size = 1;                ///< number of ranks on the node, as the launcher told this rank
  std::optional<int> master_port;    ///< rank 0's MASTER_PORT
  std::string marker;                ///< name of a file in rank 0's output folder; empty: none
  std::vector<std::string> options;  ///< words_of_all_ranks()
  std::optional<Failure> failure;    ///< why the rank cannot go on
  std::optional<int> position;       ///< position on the node, set by the leader; no value for an uninvited rank
  MN_FIELDS(rank, intra_size, master_port, marker, options, failure, position);
  MN_NEEDED_FIELDS(rank);
};

struct NodeArrival {
  std::string host;
  std::vector<Arrival> ranks;  ///< one for each rank that has arrived
  AbsentRanks absence;
  std::string address;  ///< the node's own address for other nodes
  int port = 0;         ///< port of the leader's listener
  MN_FIELDS(host, ranks, absence, address, port);
  MN_NEEDED_FIELDS(host, ranks);
};

/// The root's answer to all leaders in round 1.
struct ArrivalAnswer {
  Verdict verdict;
  int speaker_node = 0;      ///< the launcher's number of the speaker's node
  int speaker_position = 0;  ///< on its node; the speaker's rank may not be unique
  int inter_size = 1;
  std::vector<int> inter_ranks;  ///< by the launcher's number of the node
  std::vector<int> ports;        ///< ports of the leaders' listeners, by node
  std::string master_address;
  int master_port = 0;
  int master_node = 0;  ///< the launcher's number of rank 0's node
  std::string marker;
  MN_FIELDS(verdict, speaker_node, speaker_position, inter_size, inter_ranks, ports, master_address, master_port,
            master_node, marker);
  MN_NEEDED_FIELDS(verdict);
};

/// A leader's answer to a rank of its node in round 1.
struct ArrivalShare {
  Verdict verdict;
  Master master;
  NodeNumbers numbers;
  MN_FIELDS(verdict, master, numbers);
  MN_NEEDED_FIELDS(verdict, numbers);
};

// Round 2: the facts of ranks and nodes. The root answers with a Decision.

struct RankReport {
  std::optional<RankFacts> facts;
  std::optional<Failure> failure;  ///< why there are no facts
  MN_FIELDS(facts, failure);
};

struct NodeReport {
  NodeFacts node;
  double sent_at = 0;             ///< seconds since the epoch, by the node's clock
  std::vector<RankFacts> ranks;   ///< by rank of the node
  std::vector<Binding> bindings;  ///< by rank of the node
  std::vector<Failure> failures;  ///< if not empty, all else is incomplete
  AbsentRanks absence;            ///< if not empty, all else is incomplete
  MN_FIELDS(node, sent_at, ranks, bindings, failures, absence);
};

/// A leader's answer to a rank of its node in round 2.
struct VerdictShare {
  Verdict verdict;
  Binding binding;
  MN_FIELDS(verdict, binding);
  MN_NEEDED_FIELDS(verdict, binding);
};

// Round 3: whether every rank could prepare its start. The root answers with a Decision.

struct Readiness {
  std::vector<Failure> failures;
  AbsentRanks absence;
  MN_FIELDS(failures, absence);
};

template <typename Message>
[[nodiscard]] std::string to_message(const Message& message) {
  std::string bytes;
  nlohmann::json::to_cbor(json_fields::write(message), bytes);
  return bytes;
}
/// Decodes one of the structs above. Throws DataError. `what` is the message's name in the error.
template <typename Message>
[[nodiscard]] Message from_message(std::string_view bytes, const std::string& what) try {
  Message message;
  // The bytes come from another process. parse_cbor() limits the depth, so no message exhausts the stack.
  json_fields::read(parse_cbor(bytes, what), "", message);
  return message;
} catch (const DataError& error) {
  throw DataError(what + ": " + error.what());
}

}  // namespace mn::launcher
