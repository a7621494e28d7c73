#include "src/transport/node_window.hpp"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "src/base/bytes.hpp"
#include "src/transport/peer_card.hpp"

namespace sparcl::transport {
namespace {

struct WindowCard {
  NodeMemory::Name memory;
  std::string machine;
};

Bytes write_card(const WindowCard& card) {
  Bytes out(36 + card.machine.size());
  store_le(out.data(), card.memory.token[0]);
  store_le(out.data() + 8, card.memory.token[1]);
  store_le(out.data() + 16, card.memory.bytes);
  store_le(out.data() + 24, card.memory.pid);
  store_le(out.data() + 32, card.memory.descriptor);
  std::memcpy(out.data() + 36, card.machine.data(), card.machine.size());
  return out;
}

std::optional<WindowCard> read_card(std::span<const std::byte> bytes) {
  WindowCard card;
  ByteReader reader(bytes);
  NodeMemory::Name& memory = card.memory;
  if (!reader.read(memory.token[0]) || !reader.read(memory.token[1]) ||
      !reader.read(memory.bytes) || !reader.read(memory.pid) || !reader.read(memory.descriptor))
    return std::nullopt;
  std::span<const std::byte> machine;
  if (!reader.read_bytes(reader.remaining(), machine)) return std::nullopt;
  card.machine.assign(reinterpret_cast<const char*>(machine.data()), machine.size());
  return card;
}

}  // namespace

NodeWindow::NodeWindow(int ranks, std::shared_ptr<NodeMemory> memory,
                       std::shared_ptr<BufferSource> beyond, std::string_view machine)
    : memory_(std::move(memory)),
      beyond_(std::move(beyond)),
      peers_(static_cast<std::size_t>(ranks)),
      shared_with_(static_cast<std::size_t>(ranks)),
      own_machine_(fmt::format("{}{}", PeerCard::own().memory, machine)),
      card_(write_card({memory_->name(), own_machine_})) {}

NodeWindow::Opening NodeWindow::open(int rank, std::span<const std::byte> bytes) {
  const std::optional<WindowCard> card = read_card(bytes);
  if (!card || card->machine != own_machine_) return Opening::kElsewhere;
  std::shared_ptr<const NodeMemory::Mapping>& peer = peers_[static_cast<std::size_t>(rank)];
  peer = NodeMemory::open(card->memory);
  return peer != nullptr ? Opening::kOpen : Opening::kClosed;
}

void NodeWindow::end_measurement() {
  use_ = NodeMemory::Use::kCall;
  memory_->return_pages();
}

Buffer NodeWindow::take(std::size_t bytes) {
  if (bytes <= kMinPieceBytes) return beyond_->take(bytes);
  std::optional<Buffer> piece = memory_->take(bytes, use_);
  return piece ? std::move(*piece) : beyond_->take(bytes);
}

}  // namespace sparcl::transport
