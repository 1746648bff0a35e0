#include <mn/data/stage_peers.hpp>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mn/core/checksum.hpp>
#include <mn/core/classic_stream.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/log.hpp>
#include <mn/core/uninitialized.hpp>

namespace mn::data {
namespace {

constexpr auto kTimePerAddress = std::chrono::milliseconds(1500);
constexpr auto kAnswerTime = std::chrono::seconds(10);

struct stat facts_of(int fd, const std::string& path) {
  struct stat facts = {};
  if (::fstat(fd, &facts) != 0) throw FileError(with_errno("cannot stat " + path, errno), errno);
  return facts;
}

template <class Value>
bool receive(const Fd& from, Value& value, Clock::duration time) {
  return receive_until(from, std::as_writable_bytes(std::span(&value, 1)), Clock::now() + time);
}

}  // namespace

// Without O_TMPFILE, mkostemp makes a file with a random name (O_EXCL, mode 0600), and the name is removed at once.
// Other processes of the node open the file through /proc; only the same user may do this.
StageFile StageFile::make(const std::filesystem::path& folder) {
  make_folders(folder);
  Fd fd(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!fd && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    std::string name = (folder / ".mn-stage-XXXXXX").string();
    fd = Fd(::mkostemp(name.data(), O_CLOEXEC));
    const int error = errno;
    if (fd) ::unlink(name.c_str());
    errno = error;
  }
  if (!fd) throw FileError(with_errno("cannot make a file in " + folder.string(), errno), errno);
  return {std::move(fd), folder};
}

std::string StageFile::handle() const {
  const struct stat facts = facts_of(get(), folder_.string());
  OutText text;
  text << ::getpid() << ' ' << get() << ' ' << facts.st_dev << ' ' << facts.st_ino << ' ' << folder_.string();
  return text.str();
}

StageFile StageFile::open(const std::string& handle) {
  InText text(handle);
  pid_t process = 0;
  int number = -1;
  dev_t device = 0;
  ino_t inode = 0;
  std::string folder;
  text >> process >> number >> device >> inode;
  std::getline(text >> std::ws, folder);
  const std::string path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(number);
  Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!fd) throw FileError(with_errno("cannot open the file of process " + std::to_string(process), errno), errno);
  const struct stat facts = facts_of(fd.get(), path);
  // In another PID namespace, /proc leads to another process's file; device and inode show this.
  if (facts.st_dev != device || facts.st_ino != inode) {
    throw DataError("process " + std::to_string(process) + " has another file: is it in another container?");
  }
  return {std::move(fd), folder};
}

StagePeers::StagePeers(StageNodes nodes)
    : nodes_(std::move(nodes)),
      good_address_(nodes_.servers.size()),
      was_reached_(nodes_.servers.size()),
      is_lost_(nodes_.servers.size()) {
  for (std::uint32_t node = 0; node < nodes_.servers.size(); ++node) {
    if (!nodes_.servers[node].empty()) homes_.push_back(node);
  }
  if (homes_.size() < 2) homes_.clear();
}

StageSource StagePeers::ask(std::uint64_t file) {
  StageSource source;
  if (homes_.empty() || !request(home_of(file), StageRequest::Kind::kAsk, file, nodes_.self, source)) return {};
  return source.node < nodes_.servers.size() ? source : StageSource();
}

void StagePeers::tell(StageRequest::Kind kind, std::uint64_t file, std::uint32_t about) {
  StageAnswer answer;
  if (!homes_.empty()) (void)request(home_of(file), kind, file, about, answer);
}

StageAnswer StagePeers::get(std::uint64_t file, std::uint32_t node, std::int64_t bytes,
                            const std::function<void(std::uint32_t, std::span<const std::byte>)>& take) {
  StageAnswer answer = StageAnswer::kNo;
  const Fd from = request(node, StageRequest::Kind::kGet, file, nodes_.self, answer);
  if (!from || answer != StageAnswer::kYes) return answer;
  ByteBuffer piece;
  for (std::int64_t at = 0; at < bytes; at += std::ssize(piece)) {
    std::uint32_t checksum = 0;
    piece.resize(std::min(kStagePieceBytes, bytes - at));
    if (!receive(from, checksum, kStagePieceTime) || !receive_until(from, piece, Clock::now() + kStagePieceTime) ||
        crc32c(std::span(piece)) != checksum) {
      return StageAnswer::kNo;
    }
    take(checksum, piece);
  }
  return StageAnswer::kYes;
}

template <class Answer>
Fd StagePeers::request(std::uint32_t node, StageRequest::Kind kind, std::uint64_t file, std::uint32_t about,
                       Answer& answer) {
  if (is_lost_[node]) return {};
  Fd connection = connect(node, {nodes_.key, kind, about, file});
  const bool is_reached = static_cast<bool>(connection);
  if (is_reached && receive(connection, answer, kAnswerTime)) {
    was_reached_[node] = true;
    return connection;
  }
  // A node that was reached before has probably finished its part of the job: no warning.
  if (!is_lost_[node].exchange(true) && !was_reached_[node] && !warned_.exchange(true)) {
    log_warning("node " + std::to_string(node) + (is_reached ? " does not serve its copies" : " can't be reached") +
                ": files are read from shared storage");
  }
  return {};
}

Fd StagePeers::connect(std::uint32_t node, const StageRequest& request) {
  const std::vector<Endpoint>& servers = nodes_.servers[node];
  const std::size_t first = good_address_[node];
  for (std::size_t i = 0; i < servers.size(); ++i) {
    const std::size_t at = (first + i) % servers.size();
    Fd connection = connect_until(servers[at].address, servers[at].port, Clock::now() + kTimePerAddress);
    if (!connection || !send_bytes(connection, std::as_bytes(std::span(&request, 1)))) continue;
    good_address_[node] = at;
    return connection;
  }
  return {};
}

}  // namespace mn::data
