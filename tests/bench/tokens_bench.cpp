/// tokens_bench VOCABULARY TEXTS OUT: encodes texts, which zero bytes separate in the file TEXTS, and decodes tokens.
/// Writes to OUT, in native 32-bit numbers, the count of tokens of each text and its tokens; to OUT.text the decoded
/// texts with zero bytes between them. Prints MB per second of CPU time, for encoding and for decoding.
#include <ctime>
#include <iostream>
#include <vector>

#include <mn/core/file.hpp>
#include <mn/data/vocabulary.hpp>

namespace {

std::vector<std::string_view> texts_of(std::string_view content) {
  std::vector<std::string_view> texts;
  while (!content.empty()) {
    texts.push_back(content.substr(0, content.find('\0')));
    content.remove_prefix(std::min(content.size(), texts.back().size() + 1));
  }
  return texts;
}

double thread_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double seconds_of(const auto& work) {
  const double begin = thread_seconds();
  work();
  return thread_seconds() - begin;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: tokens_bench VOCABULARY TEXTS OUT\n";
    return 2;
  }
  const mn::Vocabulary vocabulary = mn::Vocabulary::load(argv[1]);
  const std::string content = mn::read_file(argv[2]);
  const auto texts = texts_of(content);
  std::vector<std::vector<std::int32_t>> tokens;
  const double encoding = seconds_of([&] {
    for (const auto text : texts) tokens.push_back(vocabulary.encode(text));
  });
  std::vector<std::string> decoded;
  const double decoding = seconds_of([&] {
    for (const auto& each : tokens) decoded.push_back(vocabulary.decode(each));
  });
  std::string numbers, all;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto count = static_cast<std::int32_t>(tokens[i].size());
    numbers.append(reinterpret_cast<const char*>(&count), sizeof(count));
    numbers.append(reinterpret_cast<const char*>(tokens[i].data()), sizeof(count) * tokens[i].size());
    all.append(decoded[i]).append(1, '\0');
  }
  mn::write_file(argv[3], numbers);
  mn::write_file(std::string(argv[3]) + ".text", all);
  const double megabytes = static_cast<double>(content.size()) / 1e6;
  std::cout << megabytes / encoding << ' ' << megabytes / decoding << '\n';
  return 0;
}
