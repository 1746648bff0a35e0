/// One end of a connection between two processes of a job: the greeting, then messages. Nothing here blocks.
///
/// 1. A message is passed on only if its code proves that it comes from the other end, unchanged and in order.
/// 2. Anything else closes the connection; what came before it can still be received.
/// 3. The other end can make this one hold at most one message of kMaxMessageBytes, in the greeting of
///    kMaxGreetingBytes, that is not complete.
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
/// Why a channel is closed that the other end has closed.
inline constexpr const char* kOtherEndClosed = "it ended";

class Channel {
 public:
  enum class State {
    kConnecting,  ///< caller: the connection is under way
    kGreeting,    ///< the other end's part of the greeting is to come
    kCalled,      ///< listener: call() tells who calls; answer() or close() is to follow
    kVerified,    ///< the other end has the key; open() or close() is to follow
    kOpen,
    kClosed,  ///< why() tells
  };

  /// The caller's end of a connection under way. `keys` must outlive the greeting.
  Channel(Fd socket, Call call, Keys& keys);
  /// The listener's end.
  explicit Channel(Fd socket);

  [[nodiscard]] State state() const noexcept { return state_; }
  [[nodiscard]] bool is(State state) const noexcept { return state_ == state; }
  [[nodiscard]] Call call() const noexcept { return call_; }
  [[nodiscard]] const std::string& why() const noexcept { return why_; }

  [[nodiscard]] int fd() const noexcept { return socket_.get(); }
  /// What poll(2) is to wait for.
  [[nodiscard]] short wanted_events() const noexcept;
  /// Does what the socket is ready for. Call it when poll(2) has reported any event.
  void progress();

  /// `keys`: shared with the one that calls.
  void answer(Keys& keys);
  void open();
  void close(const std::string& why);

  /// Queues a message; progress() and flush() send it. Open channels only.
  void send(std::string_view message);
  /// The next message, in the order in which the other end sent them.
  [[nodiscard]] std::optional<std::string> receive();
  /// Sends what the socket takes; true if nothing is left to be sent.
  bool flush();
  /// The connection, for other bytes than messages: right after open(), before the other end sends any.
  [[nodiscard]] Fd take_socket();

 private:
  void read_socket();
  /// Takes complete messages from `in_`.
  void parse();
  void take_greeting(std::string_view part);
  void take_message(std::string_view message, std::string_view code);
  void queue(std::string_view part);
  [[nodiscard]] std::string message_code(char direction, std::uint32_t number, std::string_view message) const;

  State state_;
  Fd socket_;
  Keys* keys_ = nullptr;  ///< the caller's
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
