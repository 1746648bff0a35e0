// Prints mnshard(1); the build installs what this prints.
#include <iostream>

#include "data/commands.hpp"

int main() { std::cout << mn::data::manual_page(); }
