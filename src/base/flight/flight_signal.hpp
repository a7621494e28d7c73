#pragma once
// SPARCL_FLIGHT_SIGNAL: a signal on which the flight record goes to standard error.

namespace sparcl::flight {

// A handler that is already there is called after the dump. The default action, which would end the
// process, is not taken: who names the signal wants to look and go on. Signals of a program that
// sets its own handler later are that program's.
void install_dump_handler();

// Puts the handler back that was there before, if ours is still in force: our code may be unloaded.
void remove_dump_handler();

}  // namespace sparcl::flight
