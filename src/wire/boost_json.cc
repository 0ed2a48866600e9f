// Boost.JSON's own code, as part of this library: the packaged archive is one object, of which a
// program gets all or nothing (170 KB of the agent), while the linker takes from this one what is
// used. It stands before the archive in every link, so that nothing of that is taken.
#include <boost/json/src.hpp>
