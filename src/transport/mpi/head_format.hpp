#pragma once
// The format of messages over MPI. A message of up to `eager_bytes` is one MPI message, on the tag
// of its channel. A longer one has two parts:
//
// - The head, on the channel's tag: its first eager_bytes, total length (8 bytes), tag of the body
//   (8 bytes).
// - The body, on a tag of its own: the rest, in pieces that MPI's int counts can hold.
//
// The receiver takes a head into at least largest_head() bytes, and asks for a body only once it
// knows that there is room. MPI therefore never gets a message that is larger than its receive.
// Open MPI 4.1 writes beyond the end of the receive buffer if a large message is too long (its get
// protocol). It cuts a small message to the own rank without an error.

#include <cstring>
#include <optional>
#include <span>

#include "src/base/bytes.hpp"

namespace sparcl::transport {

class HeadFormat {
 public:
  explicit HeadFormat(std::size_t eager_bytes) : eager_bytes_(eager_bytes) {}

  static constexpr std::size_t kTrailerBytes = 16;

  std::size_t eager_bytes() const { return eager_bytes_; }
  std::size_t largest_head() const { return eager_bytes_ + kTrailerBytes; }
  bool fits_eagerly(std::size_t message_bytes) const { return message_bytes <= eager_bytes_; }

  struct Body {
    std::uint64_t total_bytes = 0;  // of the whole message
    std::uint64_t tag = 0;
  };

  // head: largest_head() bytes; message: more than eager_bytes().
  void write(std::byte* head, const std::byte* message, const Body& body) const {
    std::memcpy(head, message, eager_bytes_);
    store_le(head + eager_bytes_, body.total_bytes);
    store_le(head + eager_bytes_ + 8, body.tag);
  }

  // Reads a head of largest_head() bytes; nothing if it is invalid.
  std::optional<Body> read(const std::byte* head, int largest_tag) const {
    const Body body{load_le<std::uint64_t>(head + eager_bytes_),
                    load_le<std::uint64_t>(head + eager_bytes_ + 8)};
    if (body.total_bytes <= eager_bytes_ || body.tag < 1 ||
        body.tag > static_cast<std::uint64_t>(largest_tag))
      return std::nullopt;
    return body;
  }

 private:
  std::size_t eager_bytes_;
};

}  // namespace sparcl::transport
