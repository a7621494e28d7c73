#pragma once
// SPARCL_FLIGHT_SIGNAL: a signal on which the flight record goes to standard error.

namespace sparcl::flight {

// An existing handler is called after the dump. The default action, which would end the process, is
// not taken: a user who sets the signal wants the process to continue. If a program sets its own
// handler later, that handler replaces this one.
void install_dump_handler();

// Restores the previous handler, if this one is still in force: its code may be unloaded.
void remove_dump_handler();

}  // namespace sparcl::flight
