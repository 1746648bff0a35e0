#include <mn/trainer/extensions/plot_report.hpp>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <thread>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mn/core/child_process.hpp>
#include <mn/core/classic_stream.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/core/log.hpp>
#include <mn/core/unix_time.hpp>
#include <mn/trainer/extensions/list_file.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::extensions {
namespace {

using nlohmann::json;

constexpr auto kPatience = std::chrono::seconds(10);
constexpr auto kPeriod = std::chrono::seconds(10);
constexpr std::size_t kMaxPoints = 1000;
constexpr auto kPoll = std::chrono::milliseconds(10);

std::filesystem::path temporary_png(const Trainer& trainer) { return trainer.out() / ".plot.png.tmp"; }

/// Puts a text in quotes for gnuplot. Each single quote in the text is doubled; no other character is special.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("''") : std::string(1, c);
  return result + "'";
}

/// Unlike a pipe, a file in memory never blocks, and needs no reader.
int memory_file(const std::string& text) {
  const int fd = memfd_create("gnuplot", MFD_CLOEXEC);
  if (fd < 0) return -1;
  if (write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size()) || lseek(fd, 0, SEEK_SET) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

}  // namespace

PlotReport::PlotReport(const LogReport& log, std::vector<PlotPanel> panels, std::string x, std::string program)
    : log_(log), panels_(std::move(panels)), x_(std::move(x)), program_(std::move(program)) {}

PlotReport::~PlotReport() {
  if (child_ <= 0) return;
  kill(child_, SIGKILL);
  waitpid(child_, nullptr, 0);
}

/// Of a curve with more points than a plot shows, every second point is removed, and the stride doubled.
void PlotReport::Curve::add(double x, double y) {
  last = {x, y};
  if (count++ % stride != 0) return;
  points.push_back(last);
  if (points.size() <= kMaxPoints) return;
  for (std::size_t i = 0; 2 * i < points.size(); ++i) points[i] = points[2 * i];
  points.resize((points.size() + 1) / 2);
  stride *= 2;
}

std::string PlotReport::Curve::text() const {
  OutText lines;
  lines.precision(9);
  for (const auto& [x, y] : points) lines << x << " " << y << "\n";
  if (last != points.back()) lines << last.first << " " << last.second << "\n";
  return lines.str();
}

void PlotReport::add(const nlohmann::json& entry) {
  const auto x = entry.find(x_);
  if (x == entry.end() || !x->is_number()) return;
  for (const auto& [title, names] : panels_) {
    for (const std::string& name : names) {
      const auto y = entry.find(name);
      if (y != entry.end() && y->is_number()) curves_[name].add(x->get<double>(), y->get<double>());
    }
  }
}

std::string PlotReport::script(const std::string& png) const {
  std::string data;
  std::string plots;
  int blocks = 0;
  int panels = 0;
  for (const auto& [title, names] : panels_) {
    std::string curves;
    for (const std::string& name : names) {
      const auto curve = curves_.find(name);
      if (curve == curves_.end()) continue;
      const std::string block = "$d" + std::to_string(blocks++);
      data += block + " << EOD\n" + curve->second.text() + "EOD\n";
      curves += (curves.empty() ? "plot " : ", ") + block + " using 1:2 with linespoints title " + quoted(name);
    }
    if (curves.empty()) continue;
    plots += "set title " + quoted(title) + "\n" + curves + "\n";
    ++panels;
  }
  if (panels == 0) return "";
  return data + "set terminal pngcairo size 800," + std::to_string(400 * panels) + " noenhanced\nset output " +
         quoted(png) + "\nset grid\nset key below\nset xlabel " + quoted(x_) + "\nset multiplot layout " +
         std::to_string(panels) + ",1" + (title_.empty() ? "" : " title " + quoted(title_)) + "\n" + plots +
         "unset multiplot\nunset output\n";
}

void PlotReport::give_up(const std::string& why) {
  enabled_ = false;
  log_warning("no plot.png: " + why);
}

/// Logs only the first of several failures in a row. Later plots are still tried: a full disk may have room again.
void PlotReport::fail(const std::string& why) {
  if (!std::exchange(has_failed_, true)) log_warning("plot.png is not up to date: " + why);
}

void PlotReport::draw(const Trainer& trainer) {
  const std::string commands = script(temporary_png(trainer).string());
  if (commands.empty()) return;
  const int input = memory_file(commands);
  if (input < 0) return give_up(with_errno("making gnuplot's input", errno));
  const pid_t child = start_process({program_}, {.input = input});
  close(input);
  if (child < 0) {
    return give_up(with_errno(program_ + " can't be started", -child) + "; install gnuplot to get plots");
  }
  child_ = child;
  begun_ = Clock::now();
  drawn_ = read_;
}

/// Returns true if no gnuplot is running. If gnuplot has just finished, renames its plot to plot.png.
bool PlotReport::reap(const Trainer& trainer) {
  if (child_ <= 0) return true;
  int status = 0;
  const pid_t ended = waitpid(child_, &status, WNOHANG);
  if (ended == 0) return false;
  child_ = -1;
  // If `ended` < 0, there is no exit status, because another part of the program has waited for the process. In this
  // case, the image file shows whether gnuplot succeeded.
  if (ended > 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 0)) {
    fail(program_ + " failed; try it by hand (it must know the terminal pngcairo)");
    return true;
  }
  std::error_code error;
  std::filesystem::rename(temporary_png(trainer), trainer.out() / "plot.png", error);
  if (error) {
    fail(program_ + " left no image: " + error.message());
  } else {
    has_failed_ = false;
  }
  return true;
}

/// After a resume, entries that are no longer in memory are read from the file.
void PlotReport::initialize(Trainer& trainer) {
  if (!trainer.is_root() || !curves_.empty()) return;
  title_ = std::string(program_invocation_short_name) + ", " + trainer.out().filename().string() + ", started " +
           utc_text(unix_time(), "%Y-%m-%d %H:%M UTC");
  read_ = log_.count();
  const std::vector<json>& newest = log_.entries();
  if (newest.size() == LogReport::kEntries) {
    try {
      const std::string text = read_file(trainer.out() / "log");
      for (const std::string_view row : ListFile::rows_of(text)) {
        const json entry = parse_json(row, "a row of the log");
        if (entry.at("iteration") >= newest.front().at("iteration")) break;
        add(entry);
      }
    } catch (const std::exception&) {  // the file cannot be read: plot only the entries in memory
    }
  }
  for (const json& entry : newest) add(entry);
}

void PlotReport::add_new() {
  for (const json& entry : log_.since(std::exchange(read_, log_.count()))) add(entry);
}

void PlotReport::run(Trainer& trainer) {
  if (!trainer.is_root()) return;
  add_new();
  if (reap(trainer) && enabled_ && Clock::now() - begun_ >= kPeriod) draw(trainer);
}

void PlotReport::finalize(Trainer& trainer) {
  if (!trainer.is_root()) return;
  add_new();
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  const auto wait = [&] {
    while (!reap(trainer) && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(kPoll);
  };
  wait();
  if (child_ <= 0 && enabled_ && drawn_ < read_) {
    draw(trainer);
    wait();
  }
  if (child_ > 0) log_warning("plot.png is not up to date: " + program_ + " takes too long");
}

}  // namespace mn::extensions
