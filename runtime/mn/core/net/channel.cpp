#include <mn/core/net/channel.hpp>

#include <cassert>
#include <cerrno>
#include <cstring>
#include <utility>

#include <poll.h>
#include <sys/socket.h>

#include <mn/core/error.hpp>
#include <mn/core/net/socket.hpp>
#include <mn/core/net/wire.hpp>

namespace mn {
namespace {

constexpr char kFromCaller = 'c';
constexpr char kFromListener = 'l';
constexpr const char* kDamaged = "it sends bytes that are not of mn's protocol";

}  // namespace

Channel::Channel(Fd socket, Call call, Keys& keys)
    : state_(State::kConnecting),
      socket_(std::move(socket)),
      keys_(&keys),
      call_(call),
      greeting_(CallerGreeting(call)) {}

Channel::Channel(Fd socket) : state_(State::kGreeting), socket_(std::move(socket)), greeting_(ListenerGreeting()) {}

short Channel::wanted_events() const noexcept {
  if (state_ == State::kConnecting) return POLLOUT;
  return static_cast<short>(out_.empty() ? POLLIN : POLLIN | POLLOUT);
}

void Channel::progress() {
  if (state_ == State::kConnecting) {
    if (const int error = connection_error(socket_); error != 0) return close(std::strerror(error));
    // The caller sends first. A stranger that listens on the port learns only the two process numbers and a nonce.
    state_ = State::kGreeting;
    queue(std::get<CallerGreeting>(greeting_).call());
  }
  if (state_ != State::kClosed) read_socket();
  if (state_ != State::kClosed) flush();
}

void Channel::read_socket() {
  char piece[1 << 16];
  // Stops after kMaxPieces reads, even if the peer sends without end.
  constexpr int kMaxPieces = 64;
  for (int i = 0; i < kMaxPieces && state_ != State::kClosed; ++i) {
    const bool is_open = state_ == State::kOpen;
    assert(is_open || in_.size() <= kNumberBytes + kMaxGreetingBytes);
    // This end reads at most one part of the greeting at a time (invariant 3 of channel.hpp).
    const std::size_t room = is_open ? sizeof piece : kNumberBytes + kMaxGreetingBytes - in_.size();
    if (room == 0) return;  // bytes that the peer sends out of turn stay in the kernel
    const ssize_t got = recv(socket_.get(), piece, room, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got < 0) return close(std::strerror(errno));
    if (got == 0) return close(kOtherEndClosed);
    in_.append(piece, static_cast<std::size_t>(got));
    parse();
    // A peer with a proved key counts as arrived, even if it closes the connection at once, so nothing more is read.
    if (state_ == State::kVerified) return;
  }
}

void Channel::parse() {
  std::string_view rest = in_;
  // In the states kCalled and kVerified, answer() or open() must come first. Until then later bytes stay in `in_`.
  while ((state_ == State::kGreeting || state_ == State::kOpen) && rest.size() >= kNumberBytes) {
    const bool is_open = state_ == State::kOpen;
    const std::size_t length = number_in(rest);
    // The length is checked before memory is reserved for the message (invariant 3 of channel.hpp).
    if (length > (is_open ? kMaxMessageBytes : kMaxGreetingBytes)) return close(kDamaged);
    const std::size_t code = is_open ? kCodeBytes : 0;
    if (rest.size() < kNumberBytes + length + code) break;
    const auto part = rest.substr(kNumberBytes, length);
    if (is_open) {
      take_message(part, rest.substr(kNumberBytes + length, code));
    } else {
      take_greeting(part);
    }
    rest.remove_prefix(kNumberBytes + length + code);
  }
  in_.erase(0, in_.size() - rest.size());
}

void Channel::take_greeting(std::string_view part) {
  if (auto* caller = std::get_if<CallerGreeting>(&greeting_)) {
    try {
      caller->check_answer(part, *keys_);
      state_ = State::kVerified;
    } catch (const CommError& error) {
      close(error.what());
    }
    return;
  }
  auto& listener = std::get<ListenerGreeting>(greeting_);
  if (!is_called_) {
    const auto call = listener.read_call(part);
    if (!call) return close(kDamaged);
    call_ = *call;
    is_called_ = true;
    state_ = State::kCalled;
  } else if (listener.is_proof(part)) {
    state_ = State::kVerified;
  } else {
    close("it does not have this job's key");
  }
}

void Channel::answer(Keys& keys) {
  assert(state_ == State::kCalled);
  try {
    queue(std::get<ListenerGreeting>(greeting_).answer(keys));
  } catch (const CommError& error) {
    return close(error.what());
  }
  state_ = State::kGreeting;
  flush();
}

void Channel::open() {
  assert(state_ == State::kVerified);
  if (const auto* caller = std::get_if<CallerGreeting>(&greeting_)) queue(caller->proof());
  session_ = std::visit([](const Greeting& greeting) { return greeting.session_key(); }, greeting_);
  state_ = State::kOpen;
  // Messages may have arrived together with the last part of the greeting.
  parse();
}

void Channel::close(const std::string& why) {
  // Messages that have arrived stay in received_ and can still be read (invariant 2 of channel.hpp).
  state_ = State::kClosed;
  why_ = why;
  socket_.reset();
}

Fd Channel::take_socket() {
  const bool is_whole = flush() && in_.empty();
  Fd socket = std::move(socket_);
  close("its connection serves other bytes");
  return is_whole ? std::move(socket) : Fd();
}

std::string Channel::message_code(char direction, std::uint32_t number, std::string_view message) const {
  std::string head(1, direction);
  append_number(head, number);
  return code_of(session_, {head, message});
}

void Channel::take_message(std::string_view message, std::string_view code) {
  assert(message.size() <= kMaxMessageBytes && code.size() == kCodeBytes);
  // The code covers the message's direction and number, so nobody can send a recorded message again, or back to its
  // sender (invariant 1 of channel.hpp).
  if (!is_same_code(message_code(is_caller() ? kFromListener : kFromCaller, taken_, message), code))
    return close(kDamaged);
  ++taken_;
  received_.emplace_back(message);
}

void Channel::queue(std::string_view part) {
  append_number(out_, static_cast<std::uint32_t>(part.size()));
  out_ += part;
}

void Channel::send(std::string_view message) {
  if (message.size() > kMaxMessageBytes) throw CommError("a message between two processes has over 16 MiB");
  queue(message);
  out_ += message_code(is_caller() ? kFromCaller : kFromListener, sent_++, message);
}

std::optional<std::string> Channel::receive() {
  if (received_.empty()) return std::nullopt;
  std::string message = std::move(received_.front());
  received_.pop_front();
  return message;
}

bool Channel::flush() {
  std::size_t done = 0;
  while (done < out_.size()) {
    const ssize_t sent = ::send(socket_.get(), out_.data() + done, out_.size() - done, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) break;
    // On an error the output is dropped, because the other end has closed the connection. Later reads give the last
    // messages, and then the reason.
    done = sent < 0 ? out_.size() : done + static_cast<std::size_t>(sent);
  }
  out_.erase(0, done);
  return out_.empty();
}

}  // namespace mn
