#include "exchange/exchange.hpp"

#include <algorithm>
#include <cassert>

#include <mn/core/net/wire.hpp>

namespace mn::launcher {
namespace {

using std::chrono::milliseconds;
using Kind = Peer::Kind;

// The kinds of messages. A message begins with its kind and a number. The number is, in a kReport, the sender (a node,
// or a rank within its node); in a kLost, the lost node; in a kAnswer or kHurry, the round; in a kAbandon, 0.
constexpr char kReport = 'R';   // up: a part or a report
constexpr char kLost = 'L';     // up: a node has ended (or proved only the weak key), and why
constexpr char kAnswer = 'A';   // down: the answer of a round
constexpr char kHurry = 'H';    // down: report now, without missing ranks
constexpr char kAbandon = 'X';  // down: the sender is cut off from the root

constexpr std::size_t kHeadBytes = 1 + kNumberBytes;
constexpr Peer kUp{Kind::kUp, 0};

constexpr milliseconds kMaxForStragglers{2000};
constexpr milliseconds kMaxToSend{5000};
constexpr milliseconds kSecondJobWait{500};
constexpr milliseconds kMaxForWeakCallers{5000};

milliseconds patience_for_stragglers(milliseconds patience) { return std::min(patience / 2, kMaxForStragglers); }

/// How long a rank waits for the root's answer. The root first waits for reports, and then runs its own steps.
milliseconds patience_for_answer(milliseconds patience) {
  return patience + patience / 4 + 2 * patience_for_stragglers(patience);
}

std::string seconds_text(milliseconds patience) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(patience).count()) + " s";
}

}  // namespace

Exchange::Exchange(Group group) : Exchange(listen_for_ranks(group), group) {}

Exchange::Exchange(NodeListener listener, const Group& group)
    : group_(group),
      links_(
          group_, std::move(listener),
          [this](const Peer& from, std::string message) { take(from, std::move(message)); },
          [this](const Peer& peer, bool is_weak) { lose(peer, is_weak); }),
      members_(group_.is_leader() ? static_cast<std::size_t>(group_.intra_size) : 0),
      nodes_(group_.is_root() ? static_cast<std::size_t>(group_.nodes) : 0) {}

void Exchange::send(const Peer& to, char kind, int origin, std::string_view body) {
  std::string message(1, kind);
  append_number(message, static_cast<std::uint32_t>(origin));
  message += body;
  links_.send(to, message);
}

void Exchange::send_to_children(char kind, int origin, std::string_view body) {
  if (!group_.is_leader()) return;
  for (const int child : kNodeTree.children_of(group_.node, group_.nodes))
    send({Kind::kChild, child}, kind, origin, body);
}

void Exchange::take(const Peer& from, std::string message) {
  // Invariant 2: a message without a number is garbage.
  if (message.size() < kHeadBytes) return;
  const char kind = message[0];
  const auto origin = static_cast<int>(number_in(std::string_view(message).substr(1)));
  if (from.kind == Kind::kUp) return take_from_above(kind, origin, message.substr(kHeadBytes));
  if (from.kind == Kind::kMember) {
    member(from.id).messages.push_back(message.substr(kHeadBytes));
  } else if (!group_.is_root()) {
    links_.send(kUp, message);
  } else if (origin > 0 && origin < group_.nodes) {
    if (kind == kReport) nodes_[static_cast<std::size_t>(origin)].messages.push_back(message.substr(kHeadBytes));
    if (kind == kLost) lose_node(origin, message.substr(kHeadBytes));
  }
}

void Exchange::take_from_above(char kind, int origin, std::string body) {
  if (kind == kAnswer) {
    send_to_children(kAnswer, origin, body);
    answers_.push_back(std::move(body));
  } else if (kind == kHurry) {
    send_to_children(kHurry, origin, "");
    hurried_round_ = origin;
  } else if (kind == kAbandon) {
    is_abandoned_ = true;
  }
}

Exchange::Inbox& Exchange::member(int id) {
  const auto index = static_cast<std::size_t>(id);
  if (index >= members_.size()) members_.resize(index + 1);
  return members_[index];
}

void Exchange::lose(const Peer& peer, bool is_weak) {
  const std::string why_weak = is_weak ? group_.keys->why_weak() : "";
  if (peer.kind == Kind::kUp) {
    is_up_lost_ = true;
  } else if (peer.kind == Kind::kMember) {
    member(peer.id).end = Part::Absence::kEnded;
  } else if (group_.is_root()) {
    lose_node(peer.id, why_weak);
  } else {
    send(kUp, kLost, peer.id, why_weak);
  }
}

void Exchange::lose_node(int node, const std::string& why_weak) {
  for (int each = node; each < group_.nodes; ++each) {
    Inbox& source = nodes_[static_cast<std::size_t>(each)];
    if (!kNodeTree.is_below(each, node) || source.end) continue;
    // The error message names only the lost node, not the nodes behind the lost node.
    source.end = each > node ? Part::Absence::kCutOff : why_weak.empty() ? Part::Absence::kEnded : Part::Absence::kWeak;
    if (each == node) source.why_weak = why_weak;
  }
}

Part Exchange::Inbox::take() {
  if (messages.empty()) {
    // Invariant 2: once absent, a rank or node is not awaited in later rounds.
    is_given_up = true;
    return {.bytes = std::nullopt, .absence = end.value_or(Part::Absence::kLate), .why_weak = why_weak};
  }
  Part part{.bytes = std::move(messages.front())};
  messages.pop_front();
  return part;
}

Parts Exchange::collect_members(std::string own, Deadline deadline) {
  members_[0].messages.push_back(std::move(own));
  const auto is_complete = [&] {
    member(static_cast<int>(links_.member_count()));  // makes inboxes for uninvited ranks (5) that have come
    return hurried_round_ == round_ || is_up_lost_ || is_abandoned_ ||
           (std::ranges::all_of(members_, &Inbox::is_settled) && (round_ > 1 || !links_.expects_member()));
  };
  const auto has_extra = [&] { return static_cast<int>(links_.member_count()) >= group_.intra_size; };
  links_.run_until([&] { return is_complete() || has_extra(); }, deadline);
  // Invariant 5: the invited ranks will come soon, except the rank whose number the uninvited rank has taken.
  links_.run_until(is_complete, std::min(deadline, Clock::now() + kMaxForStragglers));
  // The uninvited ranks may belong to a second job of this name. If all of them come, each gets an answer at once.
  const auto is_twice = [&] { return is_complete() && static_cast<int>(members_.size()) >= 2 * group_.intra_size; };
  if (has_extra()) links_.run_until(is_twice, Clock::now() + kSecondJobWait);
  links_.refuse_extras();
  assert(static_cast<int>(members_.size()) >= group_.intra_size);  // (5): uninvited ranks add parts
  Parts parts;
  for (auto& member : members_) parts.push_back(member.take());
  return parts;
}

Parts Exchange::collect_nodes(std::string own, Deadline deadline, Milliseconds for_stragglers) {
  nodes_[0].messages.push_back(std::move(own));
  const auto is_complete = [&] { return std::ranges::all_of(nodes_, &Inbox::is_settled); };
  const auto is_decided = [&] {
    return is_complete() || std::ranges::any_of(nodes_, [](const Inbox& node) { return node.end.has_value(); });
  };
  links_.run_until(is_decided, deadline);
  if (!is_complete()) {
    // The job will not start, so the other leaders need not wait for their ranks any more.
    send_to_children(kHurry, round_, "");
    links_.run_until(is_complete, Clock::now() + for_stragglers);
  }
  Parts parts;
  for (auto& node : nodes_) parts.push_back(node.take());
  return parts;
}

std::string Exchange::upper_name() const {
  if (!group_.is_leader()) return "the first rank of this node";
  return "mnlaunch on " + group_.hosts[static_cast<std::size_t>(kNodeTree.parent_of(group_.node))];
}

bool Exchange::root_misses_upper() const {
  return group_.node > 0 && (!group_.is_leader() || kNodeTree.parent_of(group_.node) > 0);
}

void Exchange::give_up(const std::string& why, bool root_knows) {
  // The node's leader prints the reason or, if the leader is gone, the rank with intra_rank 1.
  const bool speaks = !is_abandoned_ && !root_knows && group_.intra_rank <= 1;
  send_to_children(kAbandon, 0, "");
  for (std::size_t rank = 1; rank < members_.size(); ++rank) {
    send({Kind::kMember, static_cast<int>(rank)}, kAbandon, 0, "");
  }
  await_weak_callers();
  links_.flush(Clock::now() + kMaxForStragglers);
  throw CutOff(speaks ? why : "");
}

void Exchange::await_weak_callers() {
  if (!group_.is_leader() || !links_.has_weak_upper()) return;
  // Child nodes call late with the weak key (caller.hpp), and this node must still listen then.
  const auto children = kNodeTree.children_of(group_.node, group_.nodes);
  const auto has_come = [&](int child) { return links_.has_come({Kind::kChild, child}); };
  links_.run_until([&] { return std::ranges::all_of(children, has_come); }, Clock::now() + kMaxForWeakCallers);
}

void Exchange::give_up_waiting(Milliseconds patience) {
  const std::string& failure = links_.failure_of_calls();
  const bool root_knows = root_misses_upper() || links_.has_weak_upper();
  if (links_.local_listener().is_second) {
    give_up(std::string("another process is the first rank of this node already, and gives no answer; start each rank "
                        "once, and ") +
                kNameJobs,
            false);
  }
  if (is_up_lost_ || is_abandoned_) {
    const std::string taken = std::string(", or has this rank already: start each rank once, and ") + kNameJobs;
    give_up(upper_name() + " ended before the start" + (group_.is_leader() ? "" : taken) + "; look for its message",
            root_knows);
  }
  if (links_.has_come(kUp)) {
    give_up(upper_name() + " gave no answer in " + seconds_text(patience) +
                "; look for a hung node or file system there, and for ranks that did not arrive",
            root_knows);
  }
  if (!failure.empty()) {
    give_up("no connection to " + upper_name() + " (" + failure + ") in " + seconds_text(patience) +
                (group_.is_leader() && links_.port() == 0
                     ? "; other processes have the TCP ports of this job: look for them (ss -ltnp), or try again"
                     : "; open the firewall between the nodes, and look at their names and routes"),
            false);
  }
  give_up(upper_name() + " did not arrive in " + seconds_text(patience) + "; " + kFindLateRanks, root_knows);
}

std::string Exchange::await_answer(Milliseconds patience) {
  const Deadline begin = Clock::now();
  const auto is_decided = [&] { return !answers_.empty() || is_up_lost_ || is_abandoned_; };
  // A silent rank must not exit before the root has printed: the launcher may end all ranks at the first exit.
  const Milliseconds for_upper = root_misses_upper() ? patience_for_answer(patience) : patience;
  links_.run_until([&] { return is_decided() || links_.has_come(kUp); }, begin + for_upper);
  if (links_.has_come(kUp)) links_.run_until(is_decided, begin + patience_for_answer(patience));
  if (answers_.empty()) give_up_waiting(patience);
  std::string answer = std::move(answers_.front());
  answers_.pop_front();
  return answer;
}

std::string Exchange::round(std::string part, const Steps& steps, Milliseconds patience) {
  // Invariant 1: on all ranks the count identifies the round.
  ++round_;
  if (!group_.is_leader()) {
    send(kUp, kReport, group_.intra_rank, part);
    return await_answer(patience);
  }
  const Deadline deadline = Clock::now() + patience;
  std::string report = steps.combine(collect_members(std::move(part), deadline));
  std::string answer;
  if (group_.is_root()) {
    const Milliseconds for_stragglers = patience_for_stragglers(patience);
    const Deadline latest = std::max(deadline, Clock::now() + for_stragglers);
    answer = steps.decide(collect_nodes(std::move(report), latest, for_stragglers));
    send_to_children(kAnswer, round_, answer);
  } else {
    send(kUp, kReport, group_.node, report);
    answer = await_answer(patience);
  }
  for (int rank = 1; rank < static_cast<int>(members_.size()); ++rank) {
    send({Kind::kMember, rank}, kAnswer, round_, steps.split(answer, rank));
  }
  links_.flush(Clock::now() + kMaxToSend);
  return steps.split(answer, 0);
}

void Exchange::leave() {
  const Steps steps{.combine = [](const Parts&) { return std::string(); },
                    .decide = [](const Parts&) { return std::string(); },
                    .split = [](const std::string& answer, int) { return answer; }};
  try {
    static_cast<void>(round("", steps, std::min(group_.patience, kMaxForStragglers)));
  } catch (const CutOff&) {
  }
}

}  // namespace mn::launcher
