// A random program of differentiable calls, the same on all ranks.
#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include <torch/torch.h>

namespace mn {

/// Numbers of a seed, the same on all ranks.
class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  bool chance(int of) { return below(of) == 0; }

 private:
  std::mt19937 random_;
};

enum Kind {
  kLayer,
  kAllGather,
  kAllgather,
  kAllReduce,
  kReduceScatter,
  kBroadcast,
  kAlltoall,
  kGather,
  kScatter,
  kReduce,
  kMessage,
  kChain,
  kKinds
};

/// One call of a program. Rank r passes its tensor, or a constant of the same value if constant[r].
struct Call {
  Kind kind;
  int root, peer;               // of calls with a root, and of messages
  std::vector<int> rows, path;  // rows[source × ranks + dest]; ranks of a chain, one after the other
  std::vector<bool> constant;
};

struct Program {
  Program(unsigned number, int ranks) : seed(number), size(ranks), draw(number * 100 + static_cast<unsigned>(ranks)) {
    nodes = 1 + draw.below(3);
    weighs = draw.chance(2);
    overlaps = draw.chance(2);
    dtype = draw.chance(4) ? at::kFloat : at::kDouble;
    for (int r = 0; r < size; ++r) rows.push_back(draw.below(4)), weights.push_back(1 + draw.below(5));
    for (int n = 3 + draw.below(6); n > 0; --n) calls.push_back(call());
  }
  [[nodiscard]] Call call() {
    Call made{static_cast<Kind>(draw.below(kKinds)), draw.below(size), 0, {}, {}, {}};
    if (made.kind == kMessage && size == 1) made.kind = kLayer;
    made.peer = (made.root + 1 + draw.below(std::max(size - 1, 1))) % size;
    for (int i = 0; i < size * size; ++i) made.rows.push_back(draw.below(3));
    for (int r = 0; r < size; ++r) made.constant.push_back(draw.chance(4));
    for (int n = 2 + draw.below(4); n > 0; --n) made.path.push_back(draw.below(size));
    return made;
  }

  unsigned seed;
  int size, nodes = 1;
  Draw draw;
  bool weighs, overlaps;
  at::ScalarType dtype;
  std::vector<int> rows, weights;
  std::vector<Call> calls;
};

}  // namespace mn
