// Prints the manual page mnshard(1), which the build installs.
#include <iostream>

#include "data/commands.hpp"

int main() { std::cout << mn::data::manual_page(); }
