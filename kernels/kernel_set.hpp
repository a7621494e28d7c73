#pragma once
// The table of kernel bodies for one kind of memory. Chosen once, outside all loops. Kernels are
// pure functions: no allocation, no state, safe from any thread. Every body gives the same bits.

#include <array>
#include <bit>
#include <vector>

#include "kernels/access.hpp"
#include "kernels/accumulate.hpp"
#include "kernels/bit_list.hpp"
#include "kernels/classes.hpp"
#include "kernels/copy_sum.hpp"
#include "kernels/diff.hpp"
#include "kernels/entry_sum.hpp"
#include "kernels/gamma.hpp"
#include "kernels/rans.hpp"
#include "kernels/reduce.hpp"
#include "kernels/select.hpp"
#include "kernels/step.hpp"
#include "kernels/word_hash.hpp"
#include "src/base/data_type.hpp"
#include "src/base/memory_space.hpp"

namespace sparcl::kernels {

struct OrderKernels {  // kernels that interpret values as numbers: one set for integers, one for
                       // floats
  SplitStepsKernel* split_steps;
  AddStepsKernel* add_steps;
  AddStepsAtKernel* add_steps_at;
};

// How the bits of an element are read as a number.
enum class Numbers : std::uint8_t { kUnsigned, kSigned, kFloat };

inline Numbers numbers_of(DataType type) {
  const bool is_signed = type == DataType::kInt8 || type == DataType::kInt16 ||
                         type == DataType::kInt32 || type == DataType::kInt64;
  return info(type).is_float ? Numbers::kFloat : is_signed ? Numbers::kSigned : Numbers::kUnsigned;
}

struct SelectKernels {
  FindAtLeastKernel* find_at_least;
  MagnitudeKeysKernel* magnitude_keys;
};

struct ElementKernels {  // for elements of one width
  DiffKernel* diff;
  DiffValuesKernel* diff_values;
  GatherKernel* gather;
  ScatterKernel* scatter;
  ExchangeKernel* exchange;
  FindNotOneKernel* find_not_one;
  UnitStepsKernel* unit_steps;
  HashChangesKernel* hash_changes;
  OrderKernels integer;
  OrderKernels floating;
  std::array<SelectKernels, 3> select;  // by Numbers
};

struct ListKernels {
  SplitGapsKernel* split_gaps;
  JoinGapsKernel* join_gaps;
  SplitWideGapsKernel* split_wide_gaps;
  JoinWideGapsKernel* join_wide_gaps;
  PackPlanesKernel* pack_planes;
  UnpackPlanesKernel* unpack_planes;
  PackTritsKernel* pack_trits;
  UnpackTritsKernel* unpack_trits;
  WriteMarksKernel* write_marks;
  FindMarksKernel* find_marks;
};

struct GammaKernels {
  GammaWidthsKernel* widths;
  GammaLengthsKernel* lengths;
  WriteGammasKernel* write;
  ReadGammasKernel* read;
};

struct RansKernels {
  RansEncodeKernel* encode;
  RansDecodeKernel* decode;
};

struct KernelSet {
  const char* name;                        // "ref", "cpu (AVX2)"
  MemorySpace space;                       // of every array that its kernels take
  std::array<ElementKernels, 4> elements;  // for 1, 2, 4 and 8 bytes
  ListKernels lists;
  GammaKernels gammas;
  ClassKernels classes;
  RansKernels rans;
  HashWordsKernel* hash_words;
  CopySumKernel* copy_sum;
  ReduceTable reduces;
  AccumulateTable accumulates;
  EntryKernels entries;

  const ElementKernels& of(DataType type) const {
    return elements[std::countr_zero(element_bytes(type))];
  }
  const OrderKernels& order_of(DataType type) const {
    return info(type).is_float ? of(type).floating : of(type).integer;
  }
  const ReduceKernels& reduce_of(DataType type) const {
    return reduces[static_cast<std::size_t>(type)];
  }
  const AccumulateKernels& accumulate_of(DataType type) const {
    return accumulates[static_cast<std::size_t>(type)];
  }
  const SparseSumKernels& sparse_sum_of(DataType type, ReduceOp op) const {
    return entries.sums[static_cast<std::size_t>(type)][static_cast<std::size_t>(op)];
  }
  const SelectKernels& select_of(DataType type) const {
    return of(type).select[static_cast<std::size_t>(numbers_of(type))];
  }
};

// Readable scalar bodies: the oracle of all others.
const KernelSet& reference_kernels();

// SIMD bodies for the best instruction set of this machine.
const KernelSet& cpu_kernels();

// One table for each instruction set that was compiled in and that this machine has, the best one
// first: for tests and benchmarks.
const std::vector<KernelSet>& all_cpu_kernels();

}  // namespace sparcl::kernels
