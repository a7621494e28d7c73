#pragma once
// operator new of a test program that links failing_memory.cpp: allocations fail where a test wants
// it.

namespace sparcl::test {

// One of this thread's next allocations of at least so many bytes: after so many others. Negative:
// none.
void fail_allocation_of_this_thread(long after, unsigned long min_bytes = 0);
bool has_failed_in_this_thread();

// One of all other threads, of those with at least `min_bytes`.
void fail_allocation_of_others(long after, unsigned long min_bytes);
bool has_failed_in_others();

}  // namespace sparcl::test
