/// One end of a connection between two processes of a job. The two ends first exchange a greeting, and then messages.
/// No function blocks.
///
/// 1. A message is delivered only if the message's code (a signature) proves that the other end has sent the message,
///    unchanged and in order.
/// 2. Any other input closes the connection. Messages that were received earlier can still be read.
/// 3. The other end can make this end buffer at most one incomplete message: kMaxMessageBytes, or kMaxGreetingBytes
///    during the greeting.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include <mn/core/fd.hpp>
#include <mn/core/net/greeting.hpp>

namespace mn {

inline constexpr std::size_t kMaxMessageBytes = 16 << 20;
/// The text of why() if the other end has closed the connection.
inline constexpr const char* kOtherEndClosed = "it ended";

class Channel {
 public:
  enum class State {
    kConnecting,  ///< the caller's end is connecting
    kGreeting,    ///< the other end's next part of the greeting is due
    kCalled,      ///< the listener's end knows call(); answer() or close() must follow
    kVerified,    ///< the other end has proved the key; open() or close() must follow
    kOpen,
    kClosed,  ///< the connection is closed, and why() has the reason
  };

  /// Makes the caller's end of a connection that is being established. `keys` must outlive the greeting.
  Channel(Fd socket, Call call, Keys& keys);
  explicit Channel(Fd socket);

  [[nodiscard]] State state() const noexcept { return state_; }
  [[nodiscard]] bool is(State state) const noexcept { return state_ == state; }
  [[nodiscard]] Call call() const noexcept { return call_; }
  [[nodiscard]] const std::string& why() const noexcept { return why_; }

  [[nodiscard]] int fd() const noexcept { return socket_.get(); }
  /// The events for which to wait with poll(2).
  [[nodiscard]] short wanted_events() const noexcept;
  /// Reads and writes as far as the socket is ready. Call progress() after any event of poll(2).
  void progress();

  /// Answers the call. Allowed only in the state kCalled. `keys` holds the keys shared with the caller.
  void answer(Keys& keys);
  void open();
  void close(const std::string& why);

  /// Queues a message, which progress() or flush() then sends. Only for open channels.
  void send(std::string_view message);
  /// Returns the next message, in the order of sending; no value if no message is complete.
  [[nodiscard]] std::optional<std::string> receive();
  /// Sends as much of the queued messages as the socket accepts. True if all of them are sent.
  bool flush();
  /// Hands the socket to the caller, who then uses it as a stream of bytes without messages. Call it right after
  /// open(), before the other end sends.
  [[nodiscard]] Fd take_socket();

 private:
  [[nodiscard]] bool is_caller() const noexcept { return std::holds_alternative<CallerGreeting>(greeting_); }
  void read_socket();
  void parse();
  void take_greeting(std::string_view part);
  void take_message(std::string_view message, std::string_view code);
  void queue(std::string_view part);
  [[nodiscard]] std::string message_code(char direction, std::uint32_t number, std::string_view message) const;

  State state_;
  Fd socket_;
  Keys* keys_ = nullptr;  ///< the caller's keys; null at the listener's end
  Call call_;
  bool is_called_ = false;
  std::variant<CallerGreeting, ListenerGreeting> greeting_;
  std::string why_;
  std::string in_;
  std::string out_;
  Key session_{};
  std::uint32_t sent_ = 0;
  std::uint32_t taken_ = 0;
  std::deque<std::string> received_;
};

}  // namespace mn
