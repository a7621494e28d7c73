#pragma once
// Messages between ranks that share windows (node_window.hpp): only the location of the bytes is
// sent.

#include "src/transport/node_window.hpp"

namespace sparcl::comm {

// Returns what to send to `peer` for `message`: the message, or its location if that is worth it.
// window may be nullptr.
Buffer lent(transport::NodeWindow* window, int peer, const Buffer& message);

// A location is always shorter than a message that could be lent.
constexpr std::size_t kMinLentBytes =
    8192;  // heuristic: a smaller message is copied as fast as a loan is counted
constexpr std::size_t kPlaceBytes = 32;

bool is_place(std::span<const std::byte> message);

// The bytes whose location has come from `peer`. Nothing if its window has no such bytes.
std::optional<Buffer> borrowed(const transport::NodeWindow* window, int peer,
                               std::span<const std::byte> place);

}  // namespace sparcl::comm
