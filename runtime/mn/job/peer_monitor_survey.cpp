// A survey over the monitor's tree. Every rank passes the request on, and sends the merged answers to the parent.
#include <mn/job/peer_monitor.hpp>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/socket.h>

namespace mn {
namespace {

constexpr auto kSurveyTime = std::chrono::milliseconds(4000);   // rank 0 waits for answers at most for this time
constexpr auto kTimePerLevel = std::chrono::milliseconds(500);  // each level below rank 0 waits this much less
constexpr std::size_t kMaxAnswer = 4 << 20;

}  // namespace

void PeerMonitor::start_survey() noexcept {
  survey_arrived_ = false;
  surveying_ = true;
  wake();
}

void PeerMonitor::begin_survey(int asker) {
  if (survey_ || !options_.survey.own) return;
  int level = 0;
  for (int rank = options_.rank; rank > 0; rank = kTree.parent_of(rank)) ++level;
  survey_ = Survey{.texts = {}, .until = Clock::now() + kSurveyTime - std::min(level, 6) * kTimePerLevel};
  for (Peer& peer : peers_) {
    peer.answered = false;
    if (peer.gone) continue;
    if (peer.rank > options_.rank && is_held(peer)) {
      survey_->texts.push_back(options_.survey.held(peer.rank, peer.host));
      continue;
    }
    if (peer.rank > options_.rank) ++survey_->awaited;
    if (peer.rank != asker) send(peer, PeerByte::kSurvey);
  }
  survey_->texts.push_back(options_.survey.own());  // after the loop: own() is slow, and the peers must not wait for it
}

void PeerMonitor::take_answer(Peer& peer, char byte) {
  peer.heard = Clock::now();
  std::string& frame = *peer.frame;
  frame += byte;
  std::uint32_t length = 0;
  if (frame.size() < sizeof length) return;
  std::memcpy(&length, frame.data(), sizeof length);
  if (length <= kMaxAnswer && frame.size() < sizeof length + length) return;
  // If two ranks start surveys at the same time, a peer may answer twice; the second answer is dropped.
  if (survey_ && !std::exchange(peer.answered, true)) {
    assert(peer.rank > options_.rank);  // (7): answers come up the tree
    if (length <= kMaxAnswer) survey_->texts.push_back(frame.substr(sizeof length));
    if (survey_->awaited > 0) --survey_->awaited;
  }
  peer.frame.reset();
}

void PeerMonitor::end_survey() {
  const std::string text = options_.survey.merge(survey_->texts);
  survey_.reset();
  if (options_.rank == 0) {
    survey_arrived_ = true;
    if (asker_) return;  // a rank has asked to report the job's end
    return options_.survey.on_result(text);
  }
  if (text.size() > kMaxAnswer) return;
  const auto length = static_cast<std::uint32_t>(text.size());
  std::string frame(1, static_cast<char>(PeerByte::kSurveyed));
  frame.append(reinterpret_cast<const char*>(&length), sizeof length);
  frame += text;
  for (Peer& peer : peers_) {
    if (peer.gone || peer.rank != kTree.parent_of(options_.rank) || !peer.unsent.empty()) continue;
    peer.unsent = frame;
    send_rest(peer);
    survey_arrived_ = true;
  }
}

void PeerMonitor::send_rest(Peer& peer) {
  while (!peer.unsent.empty()) {
    const ssize_t sent = ::send(peer.socket.get(), peer.unsent.data(), peer.unsent.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (sent <= 0) return peer.unsent.clear();  // the connection is gone; reading will notice
    peer.unsent.erase(0, static_cast<std::size_t>(sent));
  }
}

}  // namespace mn
