#include "src/comm/engine/lending.hpp"

#include "src/base/bytes.hpp"

namespace sparcl::comm {
namespace {

constexpr std::uint64_t kMark =
    0xf05c'6c70'1ace'0001;  // as the first word of a part it would be more than memory can hold

}  // namespace

Buffer lent(transport::NodeWindow* window, int peer, const Buffer& message) {
  if (window == nullptr || message.size() < kMinLentBytes || !window->is_shared_with(peer))
    return message;
  const std::optional<transport::NodeWindow::Place> place = window->lend(message);
  if (!place) return message;
  const Buffer note = Buffer::allocate(kPlaceBytes);
  store_le(note.data(), kMark);
  store_le(note.data() + 8, place->piece);
  store_le(note.data() + 16, place->offset);
  store_le(note.data() + 24, place->bytes);
  return note;
}

bool is_place(std::span<const std::byte> message) {
  return message.size() == kPlaceBytes && load_le<std::uint64_t>(message.data()) == kMark;
}

std::optional<Buffer> borrowed(const transport::NodeWindow* window, int peer,
                               std::span<const std::byte> place) {
  if (window == nullptr || !is_place(place)) return std::nullopt;
  return window->borrow(
      peer, {load_le<std::uint64_t>(place.data() + 8), load_le<std::uint64_t>(place.data() + 16),
             load_le<std::uint64_t>(place.data() + 24)});
}

}  // namespace sparcl::comm
