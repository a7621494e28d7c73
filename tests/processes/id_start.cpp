// Ranks meet by a unique id. Environment, with the prefix SPARCL_TEST_:
//   RANK, SIZE   else those that Slurm gives
//   ID           "make": this process makes the id; "folder:PATH": rank 0 makes it, the others read
//                it there; else the id, in hex

#include <fmt/format.h>

#include <cstdlib>
#include <optional>

#include "tests/processes/rank_start.hpp"
#include "tests/support/file_meeting.hpp"

namespace sparcl::test {
namespace {

std::string to_hex(const sparclUniqueId& id) {
  std::string hex;
  for (const char byte : id.internal)
    hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return hex;
}

std::optional<sparclUniqueId> from_hex(const std::string& hex) {
  sparclUniqueId id;
  if (hex.size() != 2 * sizeof id.internal) return std::nullopt;
  for (std::size_t i = 0; i < sizeof id.internal; ++i) {
    id.internal[i] = static_cast<char>(std::strtoul(hex.substr(2 * i, 2).c_str(), nullptr, 16));
  }
  return id;
}

}  // namespace

RankStart::RankStart() {
  const char *slurm_rank = std::getenv("SLURM_PROCID"), *slurm_size = std::getenv("SLURM_NTASKS");
  rank_ = std::atoi(variable("RANK", slurm_rank != nullptr ? slurm_rank : "-1").c_str());
  size_ = std::atoi(variable("SIZE", slurm_size != nullptr ? slurm_size : "0").c_str());
}

sparclResult_t RankStart::meet(sparclComm_t* comm,
                               const std::function<void(const std::string&)>& tell_id) {
  const std::string given = variable("ID", "make");
  if (given.starts_with("folder:"))
    return FileMeeting(rank_, size_, given.substr(7)).make(comm, size_, nullptr, {});
  sparclUniqueId id;
  if (given == "make") {
    if (const sparclResult_t made = sparclGetUniqueId(&id); made != sparclSuccess) return made;
    tell_id(to_hex(id));
  } else {
    const std::optional<sparclUniqueId> read = from_hex(given);
    if (!read) std::exit(2);
    id = *read;
  }
  return sparclCommInitRank(comm, size_, id, rank_, nullptr);
}

void RankStart::end(bool) {}

}  // namespace sparcl::test
