/// The checks that every communicator call makes before anything is sent. Each throws ArgumentError.
#pragma once

#include <cstddef>
#include <string_view>

#include <mn/core/buffer.hpp>

namespace mn {

/// `operation` ("bcast") and `role` ("root", "send") name the call and the argument in messages.
void check_rank(std::string_view operation, std::string_view role, int rank, int size);
/// The other side of a message: in range, and not this rank itself.
void check_peer(std::string_view operation, std::string_view role, int peer, int rank, int size);
void check_tag(std::string_view operation, int tag, int max_tag);
/// Booleans have no sum.
void check_reducible(std::string_view operation, const ConstBufferView& buffer);
/// Memory must be given for a count above 0, and lie on the host or on `device`.
void check_buffer(std::string_view operation, std::string_view role, const ConstBufferView& buffer, Device device);
void check_same_dtype(std::string_view operation, const ConstBufferView& send, const ConstBufferView& recv);
/// `whole` must hold parts × part.count elements.
void check_parts(std::string_view operation, std::string_view whole_role, const ConstBufferView& whole,
                 std::string_view part_role, const ConstBufferView& part, int parts);
/// `part` may be exactly part `own` of `whole`, in place; it must not overlap otherwise. True if it is in place.
bool check_in_place(std::string_view operation, const ConstBufferView& whole, const ConstBufferView& part, int own);

}  // namespace mn
