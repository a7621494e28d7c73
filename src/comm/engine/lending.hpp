#pragma once
// Messages between ranks that share windows (node_window.hpp): what travels is where the bytes lie.

#include "src/transport/node_window.hpp"

namespace sparcl::comm {

// What to send to `peer` for `message`: itself, or where it lies if that is worth it. window may be
// nullptr.
Buffer lent(transport::NodeWindow* window, int peer, const Buffer& message);

// A place is never as long as a message that could have been lent.
constexpr std::size_t kMinLentBytes =
    8192;  // heuristic: what is smaller is copied as fast as a loan is counted
constexpr std::size_t kPlaceBytes = 32;

bool is_place(std::span<const std::byte> message);

// The bytes whose place has come from `peer`. Nothing if its window has no such bytes.
std::optional<Buffer> borrowed(const transport::NodeWindow* window, int peer,
                               std::span<const std::byte> place);

}  // namespace sparcl::comm
