/// Streams for files, commands and messages between programs. Numbers have a decimal point and no separators, whatever
/// std::locale::global() the program has set. runtime/ and jobs/ use only these streams (tests/format_test checks
/// this).
#pragma once

#include <fstream>
#include <locale>
#include <sstream>
#include <utility>

namespace mn {

template <class Stream>
class ClassicStream : public Stream {
 public:
  template <class... Arguments>
  explicit ClassicStream(Arguments&&... arguments) : Stream(std::forward<Arguments>(arguments)...) {
    this->imbue(std::locale::classic());
  }
};

using OutText = ClassicStream<std::ostringstream>;
using InText = ClassicStream<std::istringstream>;
using OutFile = ClassicStream<std::ofstream>;
using InFile = ClassicStream<std::ifstream>;

}  // namespace mn
