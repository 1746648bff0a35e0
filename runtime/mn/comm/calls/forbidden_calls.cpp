#include <mn/comm/calls/forbidden_calls.hpp>

namespace mn {
namespace {

thread_local int scopes = 0;

}  // namespace

ForbiddenCalls::ForbiddenCalls() noexcept { ++scopes; }
ForbiddenCalls::~ForbiddenCalls() { --scopes; }
bool ForbiddenCalls::any() noexcept { return scopes > 0; }

}  // namespace mn
