#include "src/comm/start/shared_windows.hpp"

#include <cstring>

#include "src/base/log.hpp"
#include "src/comm/start/small_gather.hpp"

namespace sparcl::comm {
namespace {

constexpr std::size_t kCardBytes = 256;

std::unique_ptr<transport::NodeWindow> make_window(const CommContext& comm, int ranks,
                                                   const std::string& machine) {
  Result<std::shared_ptr<transport::NodeMemory>> memory = transport::NodeMemory::of_process();
  if (!memory.ok()) {
    log_info("messages are copied between processes: {}", memory.status().message());
    return nullptr;
  }
  auto made =
      std::make_unique<transport::NodeWindow>(ranks, std::move(*memory), comm.buffers, machine);
  if (made->card().size() < kCardBytes) return made;
  log_info("messages are copied between processes: a card is too long");
  return nullptr;
}

// A length, and that many bytes of a card.
std::span<const std::byte> card_in(std::span<const std::byte> field) {
  return field.subspan(1).first(
      std::min<std::size_t>(static_cast<std::size_t>(field[0]), kCardBytes - 1));
}

}  // namespace

Task share_windows(CommContext& comm, transport::Channel channel, bool is_wanted,
                   std::string machine) {
  Engine& engine = *comm.engine;
  const int rank = engine.transport().rank(), ranks = engine.transport().size();
  std::unique_ptr<transport::NodeWindow> window =
      is_wanted ? make_window(comm, ranks, machine) : nullptr;
  std::vector<std::byte> own(kCardBytes), cards;
  if (window != nullptr) {
    own[0] = static_cast<std::byte>(window->card().size());
    std::memcpy(own.data() + 1, window->card().data(), window->card().size());
  }
  Task meeting = small_gather(engine, channel, own, cards);
  SPARCL_CO_RETURN_IF_ERROR(co_await meeting);

  std::vector<bool> opened(static_cast<std::size_t>(ranks));                    // by this rank
  std::vector<std::byte> has_opened(1, std::byte{window != nullptr}), answers;  // all that are here
  for (int peer = 0; peer < ranks && window != nullptr; ++peer) {
    const auto field = std::span<const std::byte>(cards).subspan(
        static_cast<std::size_t>(peer) * kCardBytes, kCardBytes);
    const transport::NodeWindow::Opening opening = peer == rank
                                                       ? transport::NodeWindow::Opening::kElsewhere
                                                       : window->open(peer, card_in(field));
    opened[static_cast<std::size_t>(peer)] = opening == transport::NodeWindow::Opening::kOpen;
    if (opening == transport::NodeWindow::Opening::kClosed) has_opened[0] = std::byte{0};
  }
  Task answering = small_gather(engine, channel, has_opened, answers);
  SPARCL_CO_RETURN_IF_ERROR(co_await answering);
  if (has_opened[0] == std::byte{0}) co_return Status();
  int shared = 0;
  for (int peer = 0; peer < ranks; ++peer) {
    if (!opened[static_cast<std::size_t>(peer)] ||
        answers[static_cast<std::size_t>(peer)] == std::byte{0})
      continue;
    window->set_shared_with(peer);
    ++shared;
  }
  log_debug("rank {} shares its window with {} of {} ranks", rank, shared, ranks);
  if (shared > 0) comm.window = std::move(window);
  co_return Status();
}

}  // namespace sparcl::comm
