#pragma once
// Sparse vectors of all ranks for tests of the public calls: whole numbers, whose sums are exact in
// any order and every type, so that any rank knows the result bit for bit.

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "sparcl/sparcl.h"

namespace sparcl::test {

inline std::size_t small_number_bytes(sparclDataType_t type) {
  if (type == sparclFloat64 || type == sparclInt64) return 8;
  return type == sparclFloat16 || type == sparclBfloat16 ? 2 : 4;
}

// The bits of a whole number of at most three decimal digits.
inline std::uint64_t small_number_bits(sparclDataType_t type, int value) {
  switch (type) {
    case sparclFloat64:
      return std::bit_cast<std::uint64_t>(static_cast<double>(value));
    case sparclFloat32:
      return std::bit_cast<std::uint32_t>(static_cast<float>(value));
    case sparclBfloat16:
      return std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16;
    case sparclFloat16: {
      if (value == 0) return 0;
      const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
      return (bits >> 16 & 0x8000) | ((((bits >> 23) & 0xff) - 127 + 15) << 10) |
             (bits >> 13 & 0x3ff);
    }
    default:
      return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
  }
}

inline void append_small_number(std::vector<unsigned char>& values, sparclDataType_t type,
                                int value) {
  const std::uint64_t bits = small_number_bits(type, value);
  const auto* from = reinterpret_cast<const unsigned char*>(&bits);
  values.insert(values.end(), from, from + small_number_bytes(type));
}

struct SparseVector {
  std::vector<std::uint64_t> indices;
  std::vector<int> numbers;

  std::vector<unsigned char> values(sparclDataType_t type) const {
    std::vector<unsigned char> bytes;
    for (const int number : numbers) append_small_number(bytes, type, number);
    return bytes;
  }
};

enum class Supports {
  kEmpty,
  kEmptyOnOne,
  kFull,
  kSame,
  kDisjoint,
  kGiantRank,
  kUnsorted,
  kSparse
};
constexpr Supports kAllSupports[] = {
    Supports::kEmpty,    Supports::kEmptyOnOne, Supports::kFull,     Supports::kSame,
    Supports::kDisjoint, Supports::kGiantRank,  Supports::kUnsorted, Supports::kSparse};

inline bool has_entry(Supports supports, std::uint64_t index, int rank, int ranks,
                      std::mt19937_64& own) {
  const double chance = static_cast<double>(own() % 100'000) / 100'000;
  switch (supports) {
    case Supports::kEmpty:
      return false;
    case Supports::kEmptyOnOne:
      return rank != ranks / 2 && chance < 0.02;
    case Supports::kFull:
      return true;
    case Supports::kSame:
      return index * 2654435761 % 97 < 3;
    case Supports::kDisjoint:
      return index % static_cast<std::uint64_t>(5 * ranks) == static_cast<std::uint64_t>(rank);
    case Supports::kGiantRank:
      return chance < (rank == 0 ? 0.8 : 0.001);
    case Supports::kUnsorted:
    case Supports::kSparse:
      return chance < 0.003;
  }
  return false;
}

// Of one rank: any rank can make any other's.
inline SparseVector vector_of(Supports supports, std::uint64_t count, int rank, int ranks,
                              std::uint64_t seed) {
  std::mt19937_64 own(seed * 1000 + static_cast<std::uint64_t>(rank));
  SparseVector vector;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (!has_entry(supports, i, rank, ranks, own)) continue;
    vector.indices.push_back(i);
    vector.numbers.push_back(static_cast<int>(own() % 7) - 3);
  }
  if (supports != Supports::kUnsorted) return vector;
  for (std::size_t i = vector.indices.size(); i-- > 1;) {
    const std::size_t other = own() % (i + 1);
    std::swap(vector.indices[i], vector.indices[other]);
    if (own() % 4 == 0) vector.indices[i] = vector.indices[other];  // twice
  }
  return vector;
}

// What all ranks get; explicit zeros are kept.
inline SparseVector sum_of(Supports supports, std::uint64_t count, int ranks, std::uint64_t seed) {
  std::map<std::uint64_t, int> sums;
  for (int rank = 0; rank < ranks; ++rank) {
    const SparseVector vector = vector_of(supports, count, rank, ranks, seed);
    for (std::size_t i = 0; i < vector.indices.size(); ++i)
      sums[vector.indices[i]] += vector.numbers[i];
  }
  SparseVector sum;
  for (const auto& [index, number] : sums) {
    sum.indices.push_back(index);
    sum.numbers.push_back(number);
  }
  return sum;
}

constexpr sparclDataType_t kSparseTypes[] = {sparclFloat64,  sparclFloat32, sparclFloat16,
                                             sparclBfloat16, sparclInt32,   sparclInt64};

// One call of this rank. Empty if its result is right, else what is wrong with it.
inline std::string check_sparse_sum(sparclComm_t comm, Supports supports, std::uint64_t count,
                                    sparclDataType_t type, std::uint64_t seed, bool nonblocking) {
  int rank = 0, ranks = 0;
  sparclCommUserRank(comm, &rank);
  sparclCommCount(comm, &ranks);
  const SparseVector own = vector_of(supports, count, rank, ranks, seed),
                     expected = sum_of(supports, count, ranks, seed);
  const std::vector<unsigned char> values = own.values(type),
                                   expected_values = expected.values(type);
  const std::size_t room =
      expected.indices.size() + seed % 2;  // as tight as can be, every other time
  std::vector<std::uint64_t> indices(room, 99);
  std::vector<unsigned char> sums(room * small_number_bytes(type), 0xa5);
  std::size_t nnz = 0;
  sparclResult_t result;
  if (nonblocking) {
    sparclRequest_t request = nullptr;
    result = sparclIAllReduceSparse(values.data(), own.indices.data(), own.indices.size(), count,
                                    sums.data(), indices.data(), &nnz, room, type, sparclSum,
                                    nullptr, comm, nullptr, &request);
    if (result == sparclSuccess) result = sparclWait(&request, nullptr);
  } else {
    result = sparclAllReduceSparse(values.data(), own.indices.data(), own.indices.size(), count,
                                   sums.data(), indices.data(), &nnz, room, type, sparclSum,
                                   nullptr, comm, nullptr);
  }
  if (result != sparclSuccess) return sparclGetLastError(comm);
  if (nnz != expected.indices.size()) return "the sum has " + std::to_string(nnz) + " entries";
  indices.resize(nnz);
  sums.resize(nnz * small_number_bytes(type));
  if (indices != expected.indices) return "wrong indices";
  return sums == expected_values ? "" : "wrong values";
}

}  // namespace sparcl::test
