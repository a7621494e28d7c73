#include "src/transport/peer_card.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include "src/base/bytes.hpp"

namespace sparcl::transport {
namespace {

constexpr std::uint32_t kLayout = 0x35'43'50'53;  // "SPC5"
constexpr std::size_t kMaxFieldBytes = 65536;
using Cores = std::array<std::uint64_t, CPU_SETSIZE / 64>;

void put(Bytes& out, const void* data, std::size_t bytes) {
  const std::size_t at = out.size();
  out.resize(at + sizeof(std::uint32_t) + bytes);
  store_le(out.data() + at, static_cast<std::uint32_t>(bytes));
  if (bytes > 0) std::memcpy(out.data() + at + sizeof(std::uint32_t), data, bytes);
}

// Takes the next field; false if the bytes end before it.
bool take(ByteReader& reader, std::span<const std::byte>& field) {
  std::uint32_t size = 0;
  return reader.read(size) && size <= kMaxFieldBytes && reader.read_bytes(size, field);
}

template <class Container>
bool take_as(ByteReader& reader, Container& into) {
  using Value = typename Container::value_type;
  std::span<const std::byte> field;
  if (!take(reader, field) || field.size() % sizeof(Value) != 0) return false;
  into.resize(field.size() / sizeof(Value));
  if (!field.empty()) std::memcpy(into.data(), field.data(), field.size());
  return true;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0' ? name.data() : "?";
}

std::string machine_name(const std::string& host) {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  return std::getline(file, text) && !text.empty() ? text : host;
}

// UCX shares memory inside one IPC namespace.
std::string memory_name(const std::string& machine) {
  std::error_code error;
  return machine + ' ' + std::filesystem::read_symlink("/proc/self/ns/ipc", error).string();
}

std::vector<std::uint64_t> own_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return {};
  const auto words = std::bit_cast<Cores>(set);
  const auto used =
      std::find_if(words.rbegin(), words.rend(), [](std::uint64_t word) { return word != 0; });
  return {words.begin(), used.base()};
}

}  // namespace

PeerCard PeerCard::own() {
  PeerCard card;
  card.host = host_name();
  card.machine = machine_name(card.host);
  card.memory = memory_name(card.machine);
  card.pid = ::getpid();
  card.cores = own_cores();
  return card;
}

Bytes PeerCard::serialise() const {
  Bytes out;
  put(out, &kLayout, sizeof kLayout);
  put(out, host.data(), host.size());
  put(out, machine.data(), machine.size());
  put(out, memory.data(), memory.size());
  put(out, &pid, sizeof pid);
  put(out, cores.data(), 8 * cores.size());
  put(out, address.data(), address.size());
  put(out, &first_id, sizeof first_id);
  put(out, lanes.data(), lanes.size());
  put(out, liveness.data(), liveness.size());
  const auto code = static_cast<std::int32_t>(refusal.code());
  put(out, &code, sizeof code);
  put(out, refusal.message().data(), std::min(refusal.message().size(), kMaxFieldBytes));
  return out;
}

Result<PeerCard> PeerCard::parse(std::span<const std::byte> bytes) {
  PeerCard card;
  std::vector<std::uint32_t> layout, first_id;
  std::vector<std::int64_t> pid;
  std::vector<std::int32_t> code;
  std::string why;
  ByteReader reader(bytes);
  const bool whole =
      take_as(reader, layout) && layout.size() == 1 && layout[0] == kLayout &&
      take_as(reader, card.host) && take_as(reader, card.machine) && take_as(reader, card.memory) &&
      take_as(reader, pid) && pid.size() == 1 && take_as(reader, card.cores) &&
      take_as(reader, card.address) && take_as(reader, first_id) && first_id.size() == 1 &&
      take_as(reader, card.lanes) && take_as(reader, card.liveness) && take_as(reader, code) &&
      code.size() == 1 && is_code(code[0]) && take_as(reader, why) && reader.remaining() == 0;
  if (!whole)
    return Status(
        Code::kMismatch,
        "what a rank says of itself cannot be read: do all ranks use the same version of sparcl?");
  card.pid = pid[0];
  card.first_id = first_id[0];
  card.refusal = code[0] == 0 ? Status() : Status(static_cast<Code>(code[0]), why);
  return card;
}

std::string describe(const PeerCard& card) {
  return fmt::format("host {}, pid {}", card.host, card.pid);
}

Neighbourhood look_around(std::span<const PeerCard> cards, int own_rank) {
  Neighbourhood found;
  const std::string& machine = cards[static_cast<std::size_t>(own_rank)].machine;
  std::vector<std::uint64_t> together;
  int ranks = 0;
  for (const PeerCard& card : cards) {
    if (card.machine != machine) {
      found.on_one_machine = false;
      continue;
    }
    ++ranks;
    together.resize(std::max(together.size(), card.cores.size()));
    for (std::size_t i = 0; i < card.cores.size(); ++i) together[i] |= card.cores[i];
  }
  int cores = 0;
  for (const std::uint64_t word : together) cores += std::popcount(word);
  found.crowded = ranks > cores;
  return found;
}

}  // namespace sparcl::transport
