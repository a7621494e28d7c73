#pragma once
// How the program ends where nothing can be thrown any more: an exception that leaves a destructor
// (nlohmann::json's takes memory), a static object or a thread would be an abort(). The program
// then says what happened, removes its temporary files, and its exit code is 1.

namespace sparcl::tool {

// "sparcl: error: out of memory ..." on standard error, and with --json in the arguments its JSON
// on standard output. Takes no memory. Returns the exit code.
int print_out_of_memory() noexcept;

}  // namespace sparcl::tool
