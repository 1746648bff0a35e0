#include <mn/nn/exported/enumerations.hpp>

#include <string>
#include <utility>

#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>

namespace mn::exported {
namespace {

// The numbers of ScalarType, MemoryFormat and Layout in torch/_export/serde/schema.py.
constexpr std::pair<std::int64_t, at::ScalarType> kScalarTypes[] = {
    {1, at::kByte},           {2, at::kChar},  {3, at::kShort},     {4, at::kInt},         {5, at::kLong},
    {6, at::kHalf},           {7, at::kFloat}, {8, at::kDouble},    {9, at::kComplexHalf}, {10, at::kComplexFloat},
    {11, at::kComplexDouble}, {12, at::kBool}, {13, at::kBFloat16}, {28, at::kUInt16},
};
constexpr std::pair<std::int64_t, at::MemoryFormat> kMemoryFormats[] = {
    {1, at::MemoryFormat::Contiguous},
    {2, at::MemoryFormat::ChannelsLast},
    {3, at::MemoryFormat::ChannelsLast3d},
    {4, at::MemoryFormat::Preserve},
};
constexpr std::pair<std::int64_t, at::Layout> kLayouts[] = {{7, at::kStrided}};

template <class Table>
auto find_number(const Table& table, std::int64_t number, const char* what) {
  for (const auto& [known, value] : table) {
    if (known == number) return value;
  }
  throw UnknownForm(std::string("the unknown ") + what + " " + std::to_string(number));
}

}  // namespace

at::ScalarType scalar_type_of(std::int64_t number) { return find_number(kScalarTypes, number, "dtype"); }

std::int64_t libtorch_number(const Enumerator& enumerator) {
  switch (enumerator.kind) {
    case Enumerator::Kind::kScalarType:
      return static_cast<std::int64_t>(scalar_type_of(enumerator.number));
    case Enumerator::Kind::kMemoryFormat:
      return static_cast<std::int64_t>(find_number(kMemoryFormats, enumerator.number, "memory format"));
    case Enumerator::Kind::kLayout:
      return static_cast<std::int64_t>(find_number(kLayouts, enumerator.number, "layout"));
  }
  throw UnknownForm("an unknown enumeration");
}

}  // namespace mn::exported
