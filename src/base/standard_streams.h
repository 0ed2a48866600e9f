// Standard input, output and error of a program that was started without some of them.
#pragma once

namespace base {

// Opens those of the descriptors 0, 1 and 2 that are closed, so that nothing opened later gets
// their numbers (a socket or a file that messages would then be written into). Input is at its
// end; writing fails with EBADF. First of all in main.
void hold_standard_streams();

}  // namespace base
