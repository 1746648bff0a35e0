/// The messages that ranks, leaders and the root exchange in the rounds, encoded as CBOR.
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

/// Why a rank cannot go on.
struct Failure {
  int rank = 0;
  std::string host;
  int exit_code = 1;
  std::string text;
  MN_FIELDS(rank, host, exit_code, text);
  MN_NEEDED_FIELDS(rank, exit_code);
};

/// The ranks of a node that are missing from a round. -1 stands for a rank whose number is unknown.
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

// Messages of round 1, which tell which ranks have arrived.

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

/// The root's answer to leaders.
struct ArrivalAnswer {
  Verdict verdict;
  int speaker_node = 0;      ///< the launcher's number of the speaker's node
  int speaker_position = 0;  ///< the speaker's position on its node: several ranks may have its number
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

/// A leader's answer to a rank of its node.
struct ArrivalShare {
  Verdict verdict;
  Master master;
  NodeNumbers numbers;
  MN_FIELDS(verdict, master, numbers);
  MN_NEEDED_FIELDS(verdict, numbers);
};

// Messages of round 2, with the facts of ranks and nodes. The root answers with a Decision: whether the job may start.

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
  std::vector<Failure> failures;  ///< not empty: all else is incomplete
  AbsentRanks absence;            ///< not empty: all else is incomplete
  MN_FIELDS(node, sent_at, ranks, bindings, failures, absence);
};

/// A leader's answer to a rank of its node.
struct VerdictShare {
  Verdict verdict;
  Binding binding;
  MN_FIELDS(verdict, binding);
  MN_NEEDED_FIELDS(verdict, binding);
};

// Messages of round 3, which tell whether every rank could prepare its start. The root answers with a Decision.

struct Readiness {
  std::vector<Failure> failures;
  AbsentRanks absence;
  MN_FIELDS(failures, absence);
};

/// A message, one of the structs above, as CBOR.
template <typename Message>
[[nodiscard]] std::string to_message(const Message& message) {
  std::string bytes;
  nlohmann::json::to_cbor(json_fields::write(message), bytes);
  return bytes;
}
/// Throws DataError; its text begins with `what`.
template <typename Message>
[[nodiscard]] Message from_message(std::string_view bytes, const std::string& what) try {
  Message message;
  // The bytes come from another process, so they are parsed by parse_cbor(), which bounds the depth of the document.
  json_fields::read(parse_cbor(bytes, what), "", message);
  return message;
} catch (const DataError& error) {
  throw DataError(what + ": " + error.what());
}

}  // namespace mn::launcher
