// write_fields DIR: 1,000 numbers from 0 to 999, each with divisors and number of digits.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <mn/data/shard_writer.hpp>

int main(int, char** argv) {
  const mn::SampleSpec spec = {{
      {.name = "divisors", .kind = mn::FieldKind::kVariable, .dtype = mn::DType::kInt32},
      {.name = "number", .dtype = mn::DType::kFloat32},
      {.name = "digits", .dtype = mn::DType::kInt64, .num_classes = 4},
  }};
  mn::ShardWriter writer(argv[1], spec);
  for (int i = 0; i < 1000; ++i) {
    std::vector<std::int32_t> divisors;
    for (int d = 1; d <= i; ++d) {
      if (i % d == 0) divisors.push_back(d);
    }
    const auto number = static_cast<float>(i);
    const auto digits = static_cast<std::int64_t>(std::to_string(i).size());
    writer.add({divisors, std::span(&number, 1), std::span(&digits, 1)});
  }
  writer.finish();
}
