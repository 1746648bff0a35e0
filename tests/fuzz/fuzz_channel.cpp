// What a stranger sends to a process that listens, or answers to one that calls: it is dropped without harm. The first
// byte chooses; the rest is sent.
#include <cstdint>
#include <span>
#include <string>

#include <sys/socket.h>
#include <unistd.h>

#include <mn/core/net/channel.hpp>

namespace {

using namespace mn;

void talk_to(Channel& channel, Keys& keys, int other, std::string_view bytes) {
  while (!bytes.empty() && !channel.is(Channel::State::kClosed)) {
    const ssize_t sent =
        send(other, bytes.data(), std::min<std::size_t>(bytes.size(), 64), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent <= 0) break;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
    channel.progress();
    if (channel.is(Channel::State::kCalled)) channel.answer(keys);
    if (channel.is(Channel::State::kVerified)) channel.open();
    while (channel.receive()) continue;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  int ends[2];
  if (size == 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0) return 0;
  SharedKey keys(key_of_text("fuzz"));
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) {
    Channel channel{Fd(ends[0])};
    talk_to(channel, keys, ends[1], bytes);
  } else {
    Channel channel(Fd(ends[0]), Call{1, 0}, keys);
    channel.progress();
    talk_to(channel, keys, ends[1], bytes);
  }
  close(ends[1]);
  return 0;
}
