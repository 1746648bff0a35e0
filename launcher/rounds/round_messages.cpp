#include "rounds/round_messages.hpp"

#include <mn/core/json.hpp>

#include "facts/facts_json.hpp"
#include "facts/json_fields.hpp"

namespace mn::launcher {
// A list of fields for each message serves writing and reading. An absent field keeps the message's default, unless it
// is needed.
using json_fields::kNeeded;
using json_fields::Of;

void list_fields(Of<Failure> auto& failure, auto visitor) {
  visitor("rank", failure.rank, kNeeded);
  visitor("host", failure.host);
  visitor("exit_code", failure.exit_code, kNeeded);
  visitor("text", failure.text);
}

void list_fields(Of<AbsentRanks> auto& absence, auto visitor) {
  visitor("late", absence.late);
  visitor("ended", absence.ended);
}

void list_fields(Of<Verdict> auto& verdict, auto visitor) {
  visitor("exit_code", verdict.exit_code, kNeeded);  // an absent code would read as 0 and start the job
  visitor("output", verdict.output);
  visitor("complaints", verdict.complaints);
  visitor("report", verdict.report);
}

void list_fields(Of<Decision> auto& decision, auto visitor) {
  visitor("verdict", decision.verdict, kNeeded);
  visitor("speaker", decision.speaker, kNeeded);
}

void list_fields(Of<Arrival> auto& arrival, auto visitor) {
  visitor("rank", arrival.rank, kNeeded);  // the root counts ranks by it
  visitor("intra_size", arrival.intra_size);
  visitor("master_port", arrival.master_port);
  visitor("marker", arrival.marker);
  visitor("options", arrival.options);
  visitor("failure", arrival.failure);
  visitor("position", arrival.position);
}

void list_fields(Of<NodeArrival> auto& arrival, auto visitor) {
  visitor("host", arrival.host, kNeeded);
  visitor("ranks", arrival.ranks, kNeeded);
  visitor("absence", arrival.absence);
  visitor("address", arrival.address);
  visitor("port", arrival.port);
}

void list_fields(Of<ArrivalAnswer> auto& start, auto visitor) {
  visitor("verdict", start.verdict, kNeeded);
  visitor("speaker_node", start.speaker_node);
  visitor("speaker_position", start.speaker_position);
  visitor("inter_size", start.inter_size);
  visitor("inter_ranks", start.inter_ranks);
  visitor("ports", start.ports);
  visitor("master_address", start.master_address);
  visitor("master_port", start.master_port);
  visitor("master_node", start.master_node);
  visitor("marker", start.marker);
}

void list_fields(Of<NodeNumbers> auto& numbers, auto visitor) {
  visitor("intra_rank", numbers.intra_rank);
  visitor("intra_size", numbers.intra_size);
  visitor("inter_rank", numbers.inter_rank);
  visitor("inter_size", numbers.inter_size);
}

void list_fields(Of<ArrivalShare> auto& share, auto visitor) {
  visitor("verdict", share.verdict, kNeeded);
  visitor("master_address", share.master.address);
  visitor("master_port", share.master.port);
  visitor("numbers", share.numbers, kNeeded);
}

void list_fields(Of<Binding> auto& binding, auto visitor) {
  // Without these fields a rank would start unbound, on GPUs and cores of its neighbors.
  visitor("gpu", binding.gpu, kNeeded);
  visitor("cpus", binding.cpus, kNeeded);
  visitor("cores", binding.cores, kNeeded);
  visitor("nic", binding.nic);
  visitor("shares_gpu", binding.shares_gpu);
  visitor("gpus_are_shared", binding.gpus_are_shared);
  visitor("sees_alone", binding.sees_alone);
}

void list_fields(Of<RankReport> auto& report, auto visitor) {
  visitor("facts", report.facts);
  visitor("failure", report.failure);
}

void list_fields(Of<NodeReport> auto& report, auto visitor) {
  visitor("node", report.node);
  visitor("sent_at", report.sent_at);
  visitor("ranks", report.ranks);
  visitor("bindings", report.bindings);
  visitor("failures", report.failures);
  visitor("absence", report.absence);
}

// Leaders get the answer of round 2 as a Decision; a rank gets its own binding alone.
void list_fields(Of<VerdictShare> auto& share, auto visitor) {
  visitor("verdict", share.verdict, kNeeded);
  visitor("binding", share.binding, kNeeded);
}

void list_fields(Of<Readiness> auto& readiness, auto visitor) {
  visitor("failures", readiness.failures);
  visitor("absence", readiness.absence);
}

template <typename Message>
std::string to_message(const Message& message) {
  std::string bytes;
  nlohmann::json::to_cbor(json_fields::write(message), bytes);
  return bytes;
}

template <typename Message>
Message from_message(std::string_view bytes, const std::string& what) {
  Message message;
  try {
    // parse_cbor() bounds the depth: the bytes come from another process.
    json_fields::read(parse_cbor(bytes, what), "", message);
  } catch (const DataError& error) {
    throw DataError(what + ": " + error.what());
  }
  return message;
}

// Messages; the structs above without an instance are fields of messages.
template std::string to_message(const Decision&);
template std::string to_message(const Arrival&);
template std::string to_message(const NodeArrival&);
template std::string to_message(const ArrivalAnswer&);
template std::string to_message(const ArrivalShare&);
template std::string to_message(const RankReport&);
template std::string to_message(const NodeReport&);
template std::string to_message(const VerdictShare&);
template std::string to_message(const Readiness&);

template Decision from_message(std::string_view, const std::string&);
template Arrival from_message(std::string_view, const std::string&);
template NodeArrival from_message(std::string_view, const std::string&);
template ArrivalAnswer from_message(std::string_view, const std::string&);
template ArrivalShare from_message(std::string_view, const std::string&);
template RankReport from_message(std::string_view, const std::string&);
template NodeReport from_message(std::string_view, const std::string&);
template VerdictShare from_message(std::string_view, const std::string&);
template Readiness from_message(std::string_view, const std::string&);

}  // namespace mn::launcher
